"""Parameters that explain the evidence best (maximum a posteriori). Between evidence and posterior.

Symbols
    theta   cost parameters, then (logit a, log(−log r)) per text and topk     [draws, parameters]
    y       log measured tokens per second                                     [draws, rows]
    f       log(b·AL(K) ÷ t(b, K))                                             [draws, rows]
    W       inverse Cholesky factor of the effects' covariance (effects.py)    [rows, rows]
    z       log measured acceptance lengths                                    [draws, acceptance rows]

    theta = argmin |W (y − f)|² + |(z − log AL) ÷ sd_z|² + |(theta − mean) ÷ sd|²

Levenberg-Marquardt with exact derivatives, for many (y, z, mean) at once: one draw is a fit, many are a
posterior by randomised maximum a posteriori (Bardsley et al. 2014, "randomize-then-optimize").
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from spectune.errors import NotEnoughData
from spectune.perfmodel import acceptance_model, effects
from spectune.perfmodel.arrays import Floats, Ints
from spectune.perfmodel.evidence import CapacityCurve, Cell, Evidence
from spectune.perfmodel.priors import Prior
from spectune.perfmodel.step_cost import NUM_PARAMETERS, StepShape, log_step_time_gradient

ACCEPTANCE_FORM_SD = 0.012  # error of a·r^i on public curves
MAX_ITERATIONS = 40
TOLERANCE = 1e-9  # share of the cost that the last step took, of a fit
DRAW_TOLERANCE = 1e-4  # of a draw: 0.0005 in log speed where draws differ by 0.04
SMALL_STEP = 1e-6  # log units

Group = tuple[str, int]  # text, topk


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the parameters of each text and topk lie; `rows` of cells to their groups."""

    groups: tuple[Group, ...]

    @property
    def num_parameters(self) -> int:
        """Length of theta."""
        return NUM_PARAMETERS + 2 * len(self.groups)

    def offsets(self, cells: tuple[Cell, ...]) -> Ints:
        """Index in theta of each cell's logit a, [cells]; cells of off point at the first group."""
        return np.array(
            [
                NUM_PARAMETERS
                + 2 * (0 if c.setting.is_off else self.groups.index((c.workload, c.setting.topk)))
                for c in cells
            ],
            dtype=np.int64,
        )


def layout_of(evidence: Evidence, cells: tuple[Cell, ...] = ()) -> Layout:
    """Groups of everything measured and everything to be predicted."""
    rows = [(r.cell.workload, r.cell.setting) for r in evidence.speeds]
    rows += [(c.workload, c.setting) for c in cells]
    rows += [(r.workload, r.setting) for r in evidence.acceptance]
    groups = sorted({(workload, setting.topk) for workload, setting in rows if not setting.is_off})
    return Layout(groups=tuple(groups) or (("", 1),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """Cells as arrays: what the formula needs to predict them.

    Attributes:
        num_steps: [cells].
        offsets: index in theta of logit a, [cells].
        batch: sequences running, [draws or 1, cells].
        tokens: draft tokens per sequence, [cells].
    """

    num_steps: Ints
    offsets: Ints
    batch: Floats
    tokens: Floats

    def log_speed(self, theta: Floats) -> Floats:
        """f, [draws, cells]."""
        return self.log_speed_gradient(theta)[0]

    def log_acceptance(self, theta: Floats) -> Floats:
        """Log acceptance length, [draws, cells]."""
        return np.log(
            acceptance_model.curve(theta[:, self.offsets], theta[:, self.offsets + 1], self.num_steps)
        )

    def log_speed_gradient(self, theta: Floats) -> tuple[Floats, Floats]:
        """F [draws, cells] and its derivatives [draws, cells, parameters]."""
        shape = StepShape(batch=self.batch, tokens=self.tokens, num_steps=self.num_steps.astype(float))
        log_t, by_cost = log_step_time_gradient(theta, shape)
        length, by_odds, by_decay = acceptance_model.curve_gradient(
            theta[:, self.offsets], theta[:, self.offsets + 1], self.num_steps
        )
        gradient = np.zeros((*log_t.shape, theta.shape[1]))
        gradient[..., :NUM_PARAMETERS] = -by_cost
        cells = np.arange(log_t.shape[1])
        gradient[:, cells, self.offsets] = by_odds / length
        gradient[:, cells, self.offsets + 1] = by_decay / length
        return np.log(self.batch) + np.log(length) - log_t, gradient


def surface_of(
    cells: tuple[Cell, ...], layout: Layout, capacity: tuple[CapacityCurve | None, ...]
) -> Surface:
    """Arrays of cells under one capacity curve per draw (None: nothing limits the batch)."""
    wanted = np.array([c.concurrency for c in cells], dtype=float)
    batch = np.empty((len(capacity), len(cells)))
    for curve in set(capacity):
        limits = [np.inf if curve is None else max(1, curve.limit(c)) for c in cells]
        batch[[c is curve for c in capacity]] = np.minimum(wanted, limits)
    return Surface(
        num_steps=np.array([c.setting.num_steps for c in cells], dtype=np.int64),
        offsets=layout.offsets(cells),
        batch=batch,
        tokens=np.array([c.setting.num_draft_tokens for c in cells], dtype=float),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fit as arrays.

    Attributes:
        surface: the measured cells.
        whitener: W, [rows, rows].
        y: log measured speed, [rows].
        acceptance: steps, theta offsets, log lengths, standard deviations; each [acceptance rows].
        prior_mean: [parameters].
        prior_sd: [parameters].
    """

    surface: Surface
    whitener: Floats
    y: Floats
    acceptance: tuple[Ints, Ints, Floats, Floats]
    prior_mean: Floats
    prior_sd: Floats


def problem_of(
    evidence: Evidence, layout: Layout, prior: Prior, capacity: tuple[CapacityCurve | None, ...]
) -> Problem:
    """Arrays of a fit; rows are sorted first, so their order cannot matter."""
    rows = tuple(sorted(evidence.speeds))
    if not rows:
        raise NotEnoughData("fit: `at least one measured speed` must hold; measure one setting first.")
    cells = tuple(r.cell for r in rows)
    surface = surface_of(cells, layout, capacity)
    y = np.log(np.array([r.output_tps for r in rows]))
    at = effects.coordinates(cells)
    launch = np.array([r.launch for r in rows], dtype=np.int64)
    log_sd = np.array([r.log_sd for r in rows])
    covariance = effects.lasting_covariance(at, prior.scales)
    covariance = covariance + effects.passing_covariance(at, launch, prior.scales, log_sd)
    factor = np.linalg.cholesky(covariance)
    mean, sd = _prior_arrays(evidence, layout, prior)
    mean[0] = _log_base_step(surface, y, mean)
    return Problem(
        surface=surface,
        whitener=solve_triangular(factor, np.eye(len(rows)), lower=True),
        y=y,
        acceptance=_acceptance_arrays(evidence, layout),
        prior_mean=mean,
        prior_sd=sd,
    )


def solve(
    problem: Problem,
    targets: tuple[Floats, Floats],
    mean: Floats,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> Floats:
    """Theta [draws, parameters]; draws that have settled are not computed again.

    Args:
        problem: what is fitted.
        targets: y [draws, rows] and z [draws, acceptance rows].
        mean: prior means, [draws, parameters].
        start: a theta near all of them, [1, parameters]; None starts each draw at its prior mean.
        tolerance: share of the cost that the last step of a draw may still have taken.
    """
    theta = mean.copy() if start is None else np.repeat(start, len(mean), axis=0)
    moving = np.arange(len(theta))
    y, z = targets
    damping = np.full(len(theta), 1e-3)
    cost, hessian, slope = _normal_equations(problem, theta, (y, z), mean)
    for _ in range(MAX_ITERATIONS):
        at = theta[moving]
        step = _damped_step(hessian, slope, damping)
        trial = at + step
        new = _normal_equations(problem, trial, (y[moving], z[moving]), mean[moving])
        better = new[0] <= cost
        theta[moving] = np.where(better[:, None], trial, at)
        settled = (np.abs(step).max(axis=1) < SMALL_STEP) | (
            better & (cost - new[0] < tolerance * (1.0 + cost))
        )
        hessian = np.where(better[:, None, None], new[1], hessian)[~settled]
        slope = np.where(better[:, None], new[2], slope)[~settled]
        damping = np.clip(np.where(better, damping * 0.2, damping * 8.0), 1e-9, 1e9)[~settled]
        cost = np.where(better, new[0], cost)[~settled]
        moving = moving[~settled]
        if not len(moving):
            break
    return theta


def _damped_step(hessian: Floats, slope: Floats, damping: Floats) -> Floats:
    """Levenberg-Marquardt steps, [draws, parameters]; none longer than 2 in any parameter."""
    system = hessian.copy()
    diagonal = np.einsum("dii->di", system)
    diagonal *= 1.0 + damping[:, None]
    step = np.linalg.solve(system, slope[..., None])[..., 0]
    bounded: Floats = step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(axis=1), 1e-12))[:, None]
    return bounded


def best(problem: Problem) -> Floats:
    """The best theta, [1, parameters]."""
    return solve(problem, (problem.y[None], problem.acceptance[2][None]), problem.prior_mean[None])


def log_evidence(problem: Problem) -> float:
    """Log marginal likelihood by Laplace's method, up to a constant shared by priors of equal length.

    −½ cost − ½ log|H| − Σ log sd + log|W|, with H the Gauss-Newton matrix at the best theta
    (MacKay 2003, section 27).
    """
    targets = (problem.y[None], problem.acceptance[2][None])
    cost, hessian, _ = _normal_equations(problem, best(problem), targets, problem.prior_mean[None])
    volume = np.linalg.slogdet(hessian[0])[1] / 2 + np.log(problem.prior_sd).sum()
    return float(np.log(np.diag(problem.whitener)).sum() - cost[0] / 2 - volume)


def _normal_equations(
    problem: Problem, theta: Floats, targets: tuple[Floats, Floats], mean: Floats
) -> tuple[Floats, Floats, Floats]:
    """Cost [draws], Gauss-Newton matrix [draws, p, p] and downhill slope [draws, p]."""
    y, z = targets
    f, gradient = problem.surface.log_speed_gradient(theta)
    residual = (y - f) @ problem.whitener.T
    jacobian = problem.whitener @ gradient
    cost = (residual**2).sum(axis=1)
    hessian = jacobian.transpose(0, 2, 1) @ jacobian
    slope = (residual[:, None, :] @ jacobian)[:, 0]
    steps, offsets, _, sd = problem.acceptance
    if len(steps):
        length, by_odds, by_decay = acceptance_model.curve_gradient(
            theta[:, offsets], theta[:, offsets + 1], steps
        )
        gap = (z - np.log(length)) / sd
        rows = np.zeros((*gap.shape, theta.shape[1]))
        places = np.arange(len(steps))
        rows[:, places, offsets] = by_odds / length / sd
        rows[:, places, offsets + 1] = by_decay / length / sd
        cost = cost + (gap**2).sum(axis=1)
        hessian = hessian + rows.transpose(0, 2, 1) @ rows
        slope = slope + (gap[:, None, :] @ rows)[:, 0]
    away = (mean - theta) / problem.prior_sd
    cost = cost + (away**2).sum(axis=1)
    hessian = hessian + np.diag(problem.prior_sd**-2.0)
    return cost, hessian, slope + away / problem.prior_sd


def _prior_arrays(evidence: Evidence, layout: Layout, prior: Prior) -> tuple[Floats, Floats]:
    mean = np.array([*prior.cost_mean, *(prior.acceptance_mean * len(layout.groups))])
    sd = np.array([*prior.cost_sd, *(prior.acceptance_sd * len(layout.groups))])
    mean[2], sd[2] = prior.saturation(evidence.expert_share)
    return mean, sd


def _log_base_step(surface: Surface, y: Floats, mean: Floats) -> float:
    """Centre of T's wide prior: what the rows say if every other parameter is at its mean."""
    guess = mean.copy()
    guess[0] = 0.0
    return float(np.median(surface.log_speed(guess[None, :])[0] - y))


def _acceptance_arrays(evidence: Evidence, layout: Layout) -> tuple[Ints, Ints, Floats, Floats]:
    rows = sorted(r for r in evidence.acceptance if not r.setting.is_off)
    places = [NUM_PARAMETERS + 2 * layout.groups.index((r.workload, r.setting.topk)) for r in rows]
    return (
        np.array([r.setting.num_steps for r in rows], dtype=np.int64),
        np.array(places, dtype=np.int64),
        np.log(np.array([r.acceptance_length for r in rows], dtype=float)),
        np.array([np.hypot(r.log_sd, ACCEPTANCE_FORM_SD) for r in rows], dtype=float),
    )
