"""Draws of the whole surface given the evidence: parameters and effects together.

Each draw perturbs data, priors and effects by what they may be off, fits again, and carries the effects to
the predicted cells (Matheron's rule: a prior draw plus the correction the data ask for).
In a linear model the draws are exact; here the refit takes the curvature along.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from spectune.perfmodel import effects
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import CapacityCurve, Cell, Evidence, SpeedRow
from spectune.perfmodel.fitting import (
    DRAW_TOLERANCE,
    Layout,
    best,
    layout_of,
    log_evidence,
    problem_of,
    solve,
    surface_of,
)
from spectune.perfmodel.priors import Prior

NUM_DRAWS = 200
Chance = Literal["all", "seen", "smooth"]


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

    def formula(
        self,
        cells: tuple[Cell, ...],
        *,
        is_limited: bool = True,
        is_verification_free: bool = False,
        is_all_accepted: bool = False,
    ) -> Floats:
        """Log speed by the formula alone, [draws, cells], with mechanisms switched off.

        Args:
            cells: any cells of the posterior's texts.
            is_limited: False lets every request run.
            is_verification_free: a step costs what one token per sequence costs, plus drafting.
            is_all_accepted: every draft token is accepted.
        """
        capacity = self.capacity if is_limited else (None,) * len(self.capacity)
        surface = surface_of(cells, self.layout, capacity)
        if is_verification_free:
            surface = replace(surface, tokens=np.ones_like(surface.tokens))
        logs = surface.log_speed(self.theta)
        if is_all_accepted:
            logs = logs - surface.log_acceptance(self.theta) + np.log1p(surface.num_steps)
        return logs


def sample(
    evidence: Evidence,
    cells: tuple[Cell, ...],
    *,
    prior: Prior,
    rng: np.random.Generator,
    num_draws: int = NUM_DRAWS,
    chance: Chance = "all",
) -> Posterior:
    """Draws the surface at `cells`.

    Args:
        evidence: what was measured.
        cells: where to draw.
        prior: what is known of any deployment.
        rng: source of chance.
        num_draws: surfaces drawn.
        chance: which effects of single cells belong to what lasts: "all"; "seen", only those of measured
            cells, as elsewhere they are no reason to measure; "smooth", neither levels' nor cells'.
    """
    layout = layout_of(evidence, cells)
    hypotheses = hypotheses_of(evidence, layout, prior)
    counts = rng.multinomial(num_draws, [h.probability for h in hypotheses])
    parts = [
        _sample_one(evidence, cells, layout, hypothesis, rng, int(count), chance=chance)
        for hypothesis, count in zip(hypotheses, counts, strict=True)
        if count
    ]
    return Posterior(
        cells=cells,
        lasting=np.concatenate([p.lasting for p in parts]),
        measured=np.concatenate([p.measured for p in parts]),
        theta=np.concatenate([p.theta for p in parts]),
        layout=layout,
        capacity=tuple(c for p in parts for c in p.capacity),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way the deployment may be: its capacity, and how far it strays from the formula."""

    capacity: CapacityCurve | None
    prior: Prior
    probability: float


def hypotheses_of(evidence: Evidence, layout: Layout, prior: Prior) -> tuple[Hypothesis, ...]:
    """Capacity laws × kinds of deployment; probabilities: prior weight × Laplace's marginal likelihood."""
    options = [
        (curve, kind, (1.0 if curve is None else curve.weight) * share)
        for curve in (evidence.capacity or (None,))
        for kind, share in prior.kinds()
    ]
    logs = np.array(
        [
            np.log(weight) + log_evidence(problem_of(evidence, layout, kind, (curve,)))
            for curve, kind, weight in options
        ]
    )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return tuple(
        Hypothesis(capacity=curve, prior=kind, probability=float(weight))
        for (curve, kind, _), weight in zip(options, weights, strict=True)
    )


def _sample_one(
    evidence: Evidence,
    cells: tuple[Cell, ...],
    layout: Layout,
    hypothesis: Hypothesis,
    rng: np.random.Generator,
    num_draws: int,
    *,
    chance: Chance,
) -> Posterior:
    """Draws under one hypothesis."""
    capacity = (hypothesis.capacity,) * num_draws
    problem = problem_of(evidence, layout, hypothesis.prior, capacity[:1])
    rows = tuple(sorted(evidence.speeds))
    num_rows = len(rows)
    spread = _spread(rows, cells, hypothesis.prior, chance=chance)
    lasting = rng.standard_normal((num_draws, num_rows + len(cells))) @ spread.lasting_factor.T
    passing = rng.standard_normal((num_draws, num_rows + len(cells))) @ spread.passing_factor.T
    mean = problem.prior_mean + problem.prior_sd * rng.standard_normal((num_draws, len(problem.prior_mean)))
    z = problem.acceptance[2] + problem.acceptance[3] * rng.standard_normal(
        (num_draws, len(problem.acceptance[2]))
    )
    y = problem.y - lasting[:, :num_rows] - passing[:, :num_rows]
    theta = solve(problem, (y, z), mean, start=best(problem), tolerance=DRAW_TOLERANCE)
    gap = y - problem.surface.log_speed(theta)
    kept = surface_of(cells, layout, capacity[:1]).log_speed(theta)
    kept = kept + lasting[:, num_rows:] + gap @ spread.gain.T
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


def _spread(rows: tuple[SpeedRow, ...], cells: tuple[Cell, ...], prior: Prior, *, chance: Chance) -> _Spread:
    num_rows, fresh = len(rows), 1 + max(r.launch for r in rows)
    at = effects.coordinates((*(r.cell for r in rows), *cells))
    launch = np.array([*(r.launch for r in rows), *(fresh for _ in cells)], dtype=np.int64)
    usual = sum(r.log_sd for r in rows) / num_rows  # one more measurement is as noisy as those made
    log_sd = np.array([*(r.log_sd for r in rows), *(usual for _ in cells)])
    lasting = effects.lasting_covariance(at, prior.scales)
    passing = effects.passing_covariance(at, launch, prior.scales, log_sd)
    if chance != "all":
        scales = replace(prior.scales, cell=0.0, level=0.0 if chance == "smooth" else prior.scales.level)
        kept = effects.lasting_covariance(at, scales)
        seen = {row.cell for row in rows} if chance == "seen" else set()
        is_own = np.array([True] * num_rows + [cell in seen for cell in cells])
        both = is_own[:, None] & is_own[None, :]
        lasting = np.where(both, lasting, kept)
        passing = passing + np.diag(np.where(is_own, 0.0, prior.scales.cell**2))
    known = lasting[:num_rows, :num_rows] + passing[:num_rows, :num_rows]
    return _Spread(
        lasting_factor=np.linalg.cholesky(lasting + 1e-10 * np.eye(len(lasting))),
        passing_factor=np.linalg.cholesky(passing),
        gain=np.linalg.solve(known, lasting[:num_rows, num_rows:]).T,
    )
