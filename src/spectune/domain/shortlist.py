"""What is worth measuring again once a search has stopped."""

from dataclasses import dataclass

from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """The finalists of a search.

    Attributes:
        recommended: the setting the search would recommend; None when none has every level.
        rivals: off first where it was measured, then the other levels' winners, by ascending level.
        crossings: (best at the low end, best at the high end, low, high) of each change of the winner.
        schedule: the winners as steps by batch size; None where one setting wins everywhere, or where the
            winners are not chains of one method.
        schedule_config: the chain with the schedule's most steps, by the winners' method; None without one.
    """

    recommended: SpecConfig | None
    rivals: tuple[SpecConfig, ...]
    crossings: tuple[tuple[SpecConfig, SpecConfig, int, int], ...]
    schedule: Schedule | None
    schedule_config: SpecConfig | None = None
