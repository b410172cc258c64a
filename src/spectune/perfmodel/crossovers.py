"""Where the best setting changes with concurrency, how sure that is, and why.

A crossover lies between two neighbouring levels whose winners differ by more than a tie. Its interval comes
from the draws of the smooth part of the surface between those levels; its cause from computing both
settings again with one mechanism switched off: the limit on running requests, the growth of a step with the
tokens it verifies, or the rejection of draft tokens. The first that undoes the change is the cause.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Cell, Evidence, Setting
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import Prior

Cause = Literal["capacity", "verification cost", "acceptance"]
TIE = 0.01  # share of speed below which a winner is kept for the next level
_POINTS_PER_OCTAVE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """The best setting changes here as concurrency grows.

    Attributes:
        before: best below.
        after: best above.
        concurrency: 80 % interval, inside the neighbouring levels.
        cause: what makes it change.
        workload: the text.
    """

    before: Setting
    after: Setting
    concurrency: tuple[int, int]
    cause: Cause
    workload: str


def find_crossovers(
    evidence: Evidence, posterior: Posterior, *, prior: Prior, rng: np.random.Generator
) -> tuple[Crossover, ...]:
    """Every change of the best setting along each text's levels."""
    found = []
    for workload in sorted({c.workload for c in posterior.cells}):
        levels = sorted({c.concurrency for c in posterior.cells if c.workload == workload})
        winners = _steady_winners(posterior, workload, levels)
        for low, high in pairwise(levels):
            before, after = winners[low], winners[high]
            if before == after:
                continue
            pair = (before, after)
            found.append(
                Crossover(
                    before=before,
                    after=after,
                    concurrency=_interval(evidence, workload, pair, (low, high), prior=prior, rng=rng),
                    cause=_cause(posterior, Cell(setting=before, concurrency=high, workload=workload), after),
                    workload=workload,
                )
            )
    return tuple(found)


def _steady_winners(posterior: Posterior, workload: str, levels: list[int]) -> dict[int, Setting]:
    """Winner per level; the level before keeps the title in a tie."""
    winners: dict[int, Setting] = {}
    held: Setting | None = None
    for level in levels:
        places = [
            i for i, c in enumerate(posterior.cells) if c.workload == workload and c.concurrency == level
        ]
        means = {posterior.cells[i].setting: float(posterior.lasting[:, i].mean()) for i in places}
        best = max(means, key=lambda setting: means[setting])
        if held is not None and held in means and means[best] - means[held] < TIE:
            best = held
        winners[level] = held = best
    return winners


def _interval(
    evidence: Evidence,
    workload: str,
    pair: tuple[Setting, Setting],
    bounds: tuple[int, int],
    *,
    prior: Prior,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """10 to 90 % of where the smooth surface's draws change over, cut to the bounds."""
    low, high = bounds
    num = max(2, int(_POINTS_PER_OCTAVE * np.log2(high / low)) + 1)
    points = sorted({round(p) for p in np.geomspace(low, high, num)} | {low, high})
    cells = tuple(Cell(setting=s, concurrency=p, workload=workload) for s in pair for p in points)
    draws = sample(evidence, cells, prior=prior, rng=rng, chance="smooth").lasting
    lead = draws[:, len(points) :] - draws[:, : len(points)]  # after − before, [draws, points]
    is_after = lead > 0
    first = np.where(is_after.any(axis=1), is_after.argmax(axis=1), len(points) - 1)
    start, end = np.quantile(first, (0.1, 0.9), method="nearest")
    return points[max(0, int(start) - 1)], points[int(end)]


def _cause(posterior: Posterior, before: Cell, after: Setting) -> Cause:
    """The mechanism without which `before` would still lead at the upper level."""
    rival = Cell(setting=after, concurrency=before.concurrency, workload=before.workload)
    pair = (before, rival)
    now = _lead(posterior.lasting[:, [posterior.cells.index(c) for c in pair]])
    formula = _lead(posterior.formula(pair))
    shifts: dict[Cause, float] = {
        "capacity": _lead(posterior.formula(pair, is_limited=False)) - formula,
        "verification cost": _lead(posterior.formula(pair, is_verification_free=True)) - formula,
        "acceptance": _lead(posterior.formula(pair, is_all_accepted=True)) - formula,
    }
    for cause, shift in shifts.items():
        if now + shift >= 0:
            return cause
    if shifts["capacity"] > max(shifts["verification cost"], shifts["acceptance"], 0.0):
        return "capacity"
    return "verification cost" if shifts["verification cost"] >= shifts["acceptance"] else "acceptance"


def _lead(logs: Floats) -> float:
    """Mean log lead of the first cell over the second, from [draws, 2]."""
    return float((logs[:, 0] - logs[:, 1]).mean())
