"""What the recommendation is for: levels with weights, and what a choice loses elsewhere.

A mix says how much of the time a server runs how many requests. It becomes weights of measured levels
(domain/mix), and an arm's score is the weighted mean of its log tokens/s.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from spectune.analysis.launches import Arm
from spectune.analysis.winners import Fits
from spectune.domain.mix import level_weights, neighbours
from spectune.domain.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class MixLevel:
    """One level of the mix.

    Attributes:
        concurrency: requests in flight.
        share: of the time.
        neighbours: measured levels it is taken from; itself where it was measured.
    """

    concurrency: int
    share: float
    neighbours: tuple[int, ...]

    @property
    def is_measured(self) -> bool:
        """Whether it is one of the study's levels."""
        return self.neighbours == (self.concurrency,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The levels and their weights.

    Attributes:
        levels: as asked for, ascending; every study level alike when nothing was asked for.
        weights: of the study's levels, together 1; those of weight 0 are left out.
        is_asked: whether the user gave it.
    """

    levels: tuple[MixLevel, ...]
    weights: Mapping[int, float]
    is_asked: bool


def mix_of(study: Study) -> Mix:
    """The study's mix."""
    asked = study.proof.mix or tuple((level, 1.0) for level in study.concurrency)
    total = sum(share for _, share in asked)
    return Mix(
        levels=tuple(
            MixLevel(
                concurrency=concurrency,
                share=share / total,
                neighbours=tuple(level for level, _ in neighbours(study.concurrency, concurrency)),
            )
            for concurrency, share in sorted(asked)
        ),
        weights=level_weights(study.proof.mix, study.concurrency),
        is_asked=bool(study.proof.mix),
    )


def mean_log_speed(fits: Fits, arm: Arm, weights: Mapping[int, float]) -> float | None:
    """The arm's score; None where it lacks a level that counts."""
    if not all(level in fits and fits[level].has(arm) for level in weights):
        return None
    return sum(weight * math.log(fits[level].tps(arm)) for level, weight in weights.items())


def losses(fits: Fits, arm: Arm, concurrency: tuple[int, ...]) -> tuple[tuple[int, float], ...]:
    """Share of the best fixed setting's speed that the arm loses at each level it has, 0 at its own best."""
    found = []
    for level in concurrency:
        if level in fits and fits[level].has(arm):
            best = max(fits[level].tps(Arm(config=config)) for config in fits[level].settings)
            found.append((level, max(1 - fits[level].tps(arm) / best, 0.0)))
    return tuple(found)
