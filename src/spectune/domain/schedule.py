"""How far to speculate by the number of decoding sequences: steps per range of batch sizes."""

from dataclasses import dataclass

from spectune.domain.text import is_digits
from spectune.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRange:
    """From `low` to `high` decoding sequences, draft `num_steps`; `high` None: any more."""

    low: int
    high: int | None
    num_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Ranges that join and cover every batch size from 1 on.

    >>> Schedule.of((1, 4, 3), (5, None, 0)).label
    '1-4:3,5-:0'
    """

    ranges: tuple[ScheduleRange, ...]

    def __post_init__(self) -> None:
        """Checks that the ranges join; raises ConfigError."""
        expected: int | None = 1
        for part in self.ranges:
            if expected is None or part.low != expected or (part.high is not None and part.high < part.low):
                raise ConfigError(f"schedule: `ranges join from 1 on` must hold, got {self.label}.")
            if part.num_steps < 0:
                raise ConfigError(f"schedule: `num_steps >= 0` must hold, got {self.label}.")
            expected = None if part.high is None else part.high + 1
        if expected is not None:
            raise ConfigError(f"schedule: `the last range is open` must hold, got {self.label or 'nothing'}.")

    @classmethod
    def of(cls, *ranges: tuple[int, int | None, int]) -> "Schedule":
        """From (low, high, num_steps) triples."""
        return cls(
            ranges=tuple(
                ScheduleRange(low=low, high=high, num_steps=num_steps) for low, high, num_steps in ranges
            )
        )

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """From what `label` gives; raises ConfigError.

        >>> Schedule.parse("1:5,2-15:2,16-:0").steps_for(15)
        2
        """
        return cls(ranges=tuple(_parse_range(part) for part in text.split(",")))

    @property
    def label(self) -> str:
        """As the embedded engine's `--speculative-schedule` takes it: '1:5,2-15:2,16-:0'."""
        return ",".join(f"{_bounds(part)}:{part.num_steps}" for part in self.ranges)

    @property
    def max_steps(self) -> int:
        """The most steps of any range."""
        return max(part.num_steps for part in self.ranges)

    def steps_for(self, batch_size: int) -> int:
        """Draft steps for so many decoding sequences, at least 1 of them."""
        return next(part.num_steps for part in self.ranges if part.high is None or batch_size <= part.high)


def _parse_range(text: str) -> ScheduleRange:
    bounds, colon, steps = text.strip().partition(":")
    low, dash, high = bounds.partition("-")
    if not (colon and is_digits(low) and is_digits(steps) and (is_digits(high) or not high)):
        raise ConfigError(f"schedule: `LOW-HIGH:STEPS` must be the form of a range, got {text!r}.")
    last = int(low) if not dash else int(high) if high else None
    return ScheduleRange(low=int(low), high=last, num_steps=int(steps))


def _bounds(part: ScheduleRange) -> str:
    if part.high == part.low:
        return str(part.low)
    return f"{part.low}-{'' if part.high is None else part.high}"
