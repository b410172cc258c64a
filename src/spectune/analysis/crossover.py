"""Where the best setting changes: an interval of concurrency between two measured levels, never a point."""

from dataclasses import dataclass
from itertools import pairwise

from spectune.analysis.winners import Winner
from spectune.domain.spec_config import SpecConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """A change of the best setting.

    Attributes:
        from_config: best at `low` and below, down to the crossover before.
        to_config: best at `high`.
        low: highest measured level at which `from_config` was best.
        high: lowest measured level at which `to_config` was.
        decided: whether each is certainly faster than the other at its own end.
    """

    from_config: SpecConfig
    to_config: SpecConfig
    low: int
    high: int
    decided: bool


def find_crossovers(winners: tuple[Winner, ...]) -> tuple[Crossover, ...]:
    """The changes between neighbouring levels, by ascending concurrency."""
    return tuple(
        Crossover(
            from_config=lower.config,
            to_config=upper.config,
            low=lower.concurrency,
            high=upper.concurrency,
            decided=_certainly_beats(lower, upper.config) and _certainly_beats(upper, lower.config),
        )
        for lower, upper in pairwise(sorted(winners, key=lambda winner: winner.concurrency))
        if lower.config != upper.config
    )


def _certainly_beats(winner: Winner, other: SpecConfig) -> bool:
    return any(
        rival.config == other and rival.difference.is_decided and rival.difference.ratio > 1
        for rival in winner.rivals
    )
