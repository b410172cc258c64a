"""Draws of the whole surface given the evidence: parameters and effects together.

Each draw perturbs data, priors and effects by what they may be off, fits again, and carries the effects to
the predicted cells (Matheron's rule: a prior draw plus the correction the data ask for).
In a linear model the draws are exact; here the refit takes the curvature along.
"""

from dataclasses import dataclass, replace

import numpy as np

from spectune.perfmodel import effects
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import CapacityCurve, Cell, Evidence, SpeedRow
from spectune.perfmodel.fitting import Layout, layout_of, lowest_cost, problem_of, solve, surface_of
from spectune.perfmodel.priors import Prior

NUM_DRAWS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """What the surface may be.

    Attributes:
        cells: the cells drawn.
        lasting: log tokens per second that a cell keeps over launches, [draws, cells].
        measured: log tokens per second that one more measurement would read, [draws, cells].
        theta: parameters, [draws, parameters].
        layout: where they lie.
        capacity: capacity hypothesis of each draw.
    """

    cells: tuple[Cell, ...]
    lasting: Floats
    measured: Floats
    theta: Floats
    layout: Layout
    capacity: tuple[CapacityCurve | None, ...]

    def quantiles(self, ci_level: float) -> tuple[Floats, Floats, Floats]:
        """Low, median and high tokens per second of one more measurement, each [cells]."""
        tail = 0.5 * (1.0 - ci_level)
        low, middle, high = np.exp(np.quantile(self.measured, (tail, 0.5, 1.0 - tail), axis=0))
        return low, middle, high


def sample(
    evidence: Evidence,
    cells: tuple[Cell, ...],
    *,
    prior: Prior,
    rng: np.random.Generator,
    num_draws: int = NUM_DRAWS,
    is_smooth: bool = False,
) -> Posterior:
    """Draws the surface at `cells`; with `is_smooth`, without effects of single levels and cells."""
    layout = layout_of(evidence, cells)
    capacity = _draw_capacity(evidence, layout, prior, rng, num_draws)
    problem = problem_of(evidence, layout, prior, capacity)
    rows = tuple(sorted(evidence.speeds))
    num_rows = len(rows)
    spread = _spread(rows, cells, prior, is_smooth=is_smooth)
    lasting = rng.standard_normal((num_draws, num_rows + len(cells))) @ spread.lasting_factor.T
    passing = rng.standard_normal((num_draws, num_rows + len(cells))) @ spread.passing_factor.T
    mean = problem.prior_mean + problem.prior_sd * rng.standard_normal((num_draws, len(problem.prior_mean)))
    z = problem.acceptance[2] + problem.acceptance[3] * rng.standard_normal(
        (num_draws, len(problem.acceptance[2]))
    )
    y = problem.y - lasting[:, :num_rows] - passing[:, :num_rows]
    theta = solve(problem, y, z, mean)
    gap = y - problem.surface.log_speed(theta)
    kept = surface_of(cells, layout, capacity).log_speed(theta) + lasting[:, num_rows:] + gap @ spread.gain.T
    return Posterior(
        cells=cells,
        lasting=kept,
        measured=kept + passing[:, num_rows:],
        theta=theta,
        layout=layout,
        capacity=capacity,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """Cholesky factors over rows then cells, and the gain from rows' residuals to cells' effects."""

    lasting_factor: Floats
    passing_factor: Floats
    gain: Floats


def _spread(rows: tuple[SpeedRow, ...], cells: tuple[Cell, ...], prior: Prior, *, is_smooth: bool) -> _Spread:
    num_rows, fresh = len(rows), 1 + max(r.launch for r in rows)
    at = effects.coordinates((*(r.cell for r in rows), *cells))
    launch = np.array([*(r.launch for r in rows), *(fresh for _ in cells)], dtype=np.int64)
    log_sd = np.array([*(r.log_sd for r in rows), *(0.0 for _ in cells)])
    lasting = effects.lasting_covariance(at, prior.scales)
    if is_smooth:
        smooth = effects.lasting_covariance(at, replace(prior.scales, level=0.0, cell=0.0))
        smooth[:num_rows, :num_rows] = lasting[:num_rows, :num_rows]
        lasting = smooth
    passing = effects.passing_covariance(at, launch, prior.scales, log_sd)
    known = lasting[:num_rows, :num_rows] + passing[:num_rows, :num_rows]
    return _Spread(
        lasting_factor=np.linalg.cholesky(lasting + 1e-10 * np.eye(len(lasting))),
        passing_factor=np.linalg.cholesky(passing),
        gain=np.linalg.solve(known, lasting[:num_rows, num_rows:]).T,
    )


def weigh_capacity(evidence: Evidence, layout: Layout, prior: Prior) -> tuple[float, ...]:
    """Probability of each capacity hypothesis: its weight × exp(−½ cost of the best fit under it)."""
    curves = evidence.capacity
    if len(curves) < 2:
        return (1.0,) * len(curves)
    costs = []
    for curve in curves:
        problem = problem_of(evidence, layout, prior, (curve,))
        costs.append(lowest_cost(problem))
    logs = np.log([c.weight for c in curves]) - 0.5 * np.array(costs)
    weights = np.exp(logs - logs.max())
    return tuple(float(w) for w in weights / weights.sum())


def _draw_capacity(
    evidence: Evidence, layout: Layout, prior: Prior, rng: np.random.Generator, num_draws: int
) -> tuple[CapacityCurve | None, ...]:
    """A hypothesis per draw, in proportion to its probability."""
    if not evidence.capacity:
        return (None,) * num_draws
    picks = rng.choice(len(evidence.capacity), size=num_draws, p=weigh_capacity(evidence, layout, prior))
    return tuple(evidence.capacity[int(i)] for i in picks)
