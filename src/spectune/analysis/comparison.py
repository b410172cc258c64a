"""Which of two settings is faster at one level, and whether that is certain. From raw records.

symbol   meaning                                            unit      shape
T_i      output tokens of request i                         tokens    [num_pairs]
D_i      seconds request i kept its slot (end − send)       s         [num_pairs]
u_i      influence of request i on log(ΣT / ΣD)             1         [num_pairs]

In a closed loop with all slots busy, tokens/s = concurrency · ΣT / ΣD, so log(ΣT/ΣD) carries the noise of
log(tokens/s). By the delta method (ratio of sums) u_i = T_i/ΣT − D_i/ΣD and the variance is
n/(n−1) · Σ u_i². The same prompts are sent in the same order to every setting, so the difference of two
settings has the variance of u_i(a) − u_i(b): what the prompts themselves vary by cancels.

Two launches of the same server differ by more than their prompts explain. A study with one launch per
setting cannot measure that, so a launch's standard deviation enters as a prior (public tables of repeated
launches show about 1.5 %).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from spectune.domain.measurement import LevelMeasurement, RequestRecord
from spectune.metrics.summary import LevelSummary, summarise_level

CI_LEVEL = 0.95
LAUNCH_SD = 0.015
TIE_SHARE = 0.01
"""Settings closer than this are a tie, and the one with fewer steps is taken."""
_MIN_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLevel:
    """A level with its figures, so that they are computed once."""

    measurement: LevelMeasurement
    summary: LevelSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedDifference:
    """How much faster one setting is than another at one level.

    Attributes:
        ratio: tokens/s of the first ÷ tokens/s of the second.
        ratio_ci: its 95 % interval; None where there is too little to tell.
    """

    ratio: float
    ratio_ci: tuple[float, float] | None

    @property
    def is_decided(self) -> bool:
        """Whether the interval leaves out a tie."""
        return self.ratio_ci is not None and not self.ratio_ci[0] <= 1.0 <= self.ratio_ci[1]


def measure_level(level: LevelMeasurement) -> MeasuredLevel:
    """The level with its figures."""
    return MeasuredLevel(measurement=level, summary=summarise_level(level))


def speed(level: MeasuredLevel) -> float:
    """The level's tokens/s; only levels that have one are compared."""
    assert level.summary.output_tps, "levels without a measured speed are left out before"
    return level.summary.output_tps


def compare(first: MeasuredLevel, second: MeasuredLevel, *, launch_sd: float = LAUNCH_SD) -> SpeedDifference:
    """The speed of `first` relative to `second`.

    Args:
        first: with a measured tokens/s.
        second: the same level of another setting, with a measured tokens/s.
        launch_sd: standard deviation of one launch's log speed.
    """
    log_ratio = math.log(speed(first) / speed(second))
    prompts = _paired_sd(first.measurement.records, second.measurement.records)
    if prompts is None:
        return SpeedDifference(ratio=math.exp(log_ratio), ratio_ci=None)
    sd, degrees = prompts
    half = float(stdtrit(degrees, 0.5 + CI_LEVEL / 2)) * math.hypot(sd, math.sqrt(2) * launch_sd)
    return SpeedDifference(
        ratio=math.exp(log_ratio), ratio_ci=(math.exp(log_ratio - half), math.exp(log_ratio + half))
    )


def _paired_sd(
    first: tuple[RequestRecord, ...], second: tuple[RequestRecord, ...]
) -> tuple[float, int] | None:
    """Standard deviation of the log ratio due to prompts, and its degrees of freedom."""
    by_index = {record.index: record for record in second if record.is_ok}
    pairs = [
        (record, by_index[record.index]) for record in first if record.is_ok and record.index in by_index
    ]
    if len(pairs) < _MIN_PAIRS:
        return None
    differences = _influences([a for a, _ in pairs]) - _influences([b for _, b in pairs])  # [num_pairs]
    count = len(pairs)
    return math.sqrt(count / (count - 1) * float(np.sum(differences**2))), count - 1


def _influences(records: list[RequestRecord]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    tokens = np.array([record.output_tokens or 0 for record in records], dtype=np.float64)
    seconds = np.array([record.ended_at_s - record.sent_at_s for record in records], dtype=np.float64)
    influence: np.ndarray[tuple[int], np.dtype[np.float64]] = tokens / tokens.sum() - seconds / seconds.sum()
    return influence
