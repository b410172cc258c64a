"""What is worth measuring again once a search has stopped."""

from dataclasses import dataclass

from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig

NARROW = 1.25
"""A change between two levels no further apart than that is as narrow as anybody needs it."""


def is_narrow(low: int, high: int) -> bool:
    """Whether a change between these levels needs no level in between: neighbours, or 25 % apart at most.

    >>> is_narrow(3, 4), is_narrow(4, 6), is_narrow(16, 20)
    (True, False, True)
    """
    return high <= low + 1 or high <= NARROW * low


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLevel:
    """A level to measure within a change of the best setting.

    Attributes:
        concurrency: the level.
        needed: settings without which it tells no winner, and which were not measured there.
        useful: those and others that may be close to the winner there.
    """

    concurrency: int
    needed: frozenset[SpecConfig]
    useful: frozenset[SpecConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A change of the best setting between two levels.

    Attributes:
        first: best at the low end.
        second: best at the high end.
        low: the lower level.
        high: the upper one.
        levels: what would narrow it, most worth first.
    """

    first: SpecConfig
    second: SpecConfig
    low: int
    high: int
    levels: tuple[WantedLevel, ...] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether it needs no level in between."""
        return is_narrow(self.low, self.high)

    @property
    def label(self) -> str:
        """For the user: 'eagle 3 → off between 4 and 16'."""
        return f"{self.first.label} → {self.second.label} between {self.low} and {self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """The finalists of a search.

    Attributes:
        recommended: the setting the search would recommend; None when none has every level.
        rivals: off first where it was measured, then those that meet the recommended setting where the best
            one changes, then the other levels' winners, by ascending level.
        gaps: changes of the best setting that are still wide, those of the recommended setting first.
        schedule: the winners as steps by batch size; None where one setting wins everywhere, or where the
            winners are not chains of one method.
        schedule_config: the chain with the schedule's most steps, by the winners' method; None without one.
    """

    recommended: SpecConfig | None
    rivals: tuple[SpecConfig, ...]
    gaps: tuple[Gap, ...]
    schedule: Schedule | None
    schedule_config: SpecConfig | None = None
