"""How far to speculate by the number of decoding sequences."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high` decoding sequences (None: any more), draft `num_steps`."""

    low: int
    high: int | None
    num_steps: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Ranges that cover every batch size from 1 on, in order."""

    ranges: tuple[Range, ...]

    def __post_init__(self) -> None:
        """Checks that the ranges join; raises ValueError."""
        expected: int | None = 1
        for part in self.ranges:
            if expected is None or part.low != expected or (part.high is not None and part.high < part.low):
                raise ValueError(f"`ranges must join from 1 on` must hold, got {self}")
            if part.num_steps < 0:
                raise ValueError(f"`num_steps >= 0` must hold, got {self}")
            expected = None if part.high is None else part.high + 1
        if expected is not None:
            raise ValueError(f"`the last range must be open, such as {expected}-:0` must hold, got {self}")

    def __str__(self) -> str:
        """As `--speculative-schedule` takes it."""
        parts = []
        for part in self.ranges:
            single = part.high == part.low
            bounds = str(part.low) if single else f"{part.low}-{'' if part.high is None else part.high}"
            parts.append(f"{bounds}:{part.num_steps}")
        return ",".join(parts)

    @property
    def max_steps(self) -> int:
        """The most steps of any range."""
        return max(part.num_steps for part in self.ranges)

    @property
    def step_counts(self) -> tuple[int, ...]:
        """The step counts that occur, ascending."""
        return tuple(sorted({part.num_steps for part in self.ranges}))

    def steps_for(self, batch: int) -> int:
        """Draft steps for `batch` decoding sequences, at least 1 of them."""
        return next(part.num_steps for part in self.ranges if part.high is None or batch <= part.high)


def fixed(num_steps: int) -> Schedule:
    """The same number of steps for every batch."""
    return Schedule((Range(1, None, num_steps),))


def read_schedule(text: str) -> Schedule:
    """Reads `1-4:5,5-15:2,16-:0`; raises ValueError.

    >>> str(read_schedule("1:5,2-15:2,16-:0"))
    '1:5,2-15:2,16-:0'
    >>> read_schedule("1-4:5,5-15:2,16-:0").steps_for(15)
    2
    """
    return Schedule(tuple(_read_range(part) for part in text.split(",")))


def _read_range(text: str) -> Range:
    bounds, colon, steps = text.strip().partition(":")
    low, dash, high = bounds.partition("-")
    if not (
        text.isascii() and colon and low.isdecimal() and steps.isdecimal() and (high.isdecimal() or not high)
    ):
        raise ValueError(f"`LOW-HIGH:STEPS` must be the form of a range, got {text!r}")
    last = int(low) if not dash else int(high) if high else None
    return Range(int(low), last, int(steps))
