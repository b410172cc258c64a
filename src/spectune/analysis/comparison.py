"""Which of two settings is faster at one level, and whether that is certain. From raw records.

symbol   meaning                                            unit      shape
T_i      output tokens of request i                         tokens    [num_pairs]
D_i      seconds request i kept its slot (end − send)       s         [num_pairs]
u_i      influence of request i on log(ΣT / ΣD)             1         [num_pairs]

In a closed loop with all slots busy, tokens/s = concurrency · ΣT / ΣD, so log(ΣT/ΣD) carries the noise of
log(tokens/s). By the delta method (ratio of sums) u_i = T_i/ΣT − D_i/ΣD and the variance is
n/(n−1) · Σ u_i². The same prompts are sent in the same order to every setting, so the difference of two
settings has the variance of u_i(a) − u_i(b): what the prompts themselves vary by cancels.

A level that other processes disturbed is a lower bound: had it had their share of a core, it could have run
up to 1/(1 − share) faster. The interval is widened by that much on the side it would move to.

Two launches of the same server differ by more than their prompts explain. A study with one launch per
setting cannot measure that, so a launch's standard deviation enters as a prior (public tables of repeated
launches show about 1.5 %).
"""

import math
from dataclasses import dataclass

import numpy as np

from spectune.domain.measurement import LevelMeasurement, RequestRecord
from spectune.metrics.summary import LevelSummary, summarise_level

CI_LEVEL = 0.95
LAUNCH_SD = 0.015
TIE_SHARE = 0.01
"""Settings closer than this are a tie, and the one with fewer steps is taken."""
_MIN_PAIRS = 5
_LARGEST_SHARE = 0.95  # of one core; beyond it nothing is known of the level, and the interval says so


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
    half = student_t_975(degrees) * math.hypot(sd, math.sqrt(2) * launch_sd)
    low, high = math.exp(log_ratio - half), math.exp(log_ratio + half)
    return SpeedDifference(
        ratio=math.exp(log_ratio), ratio_ci=(low / _headroom(second), high * _headroom(first))
    )


def _headroom(level: MeasuredLevel) -> float:
    """How much faster a disturbed level could have run; 1 for an undisturbed one."""
    if not level.summary.disturbed:
        return 1.0
    return 1 / (1 - min(level.summary.foreign_cpu_share or 0.0, _LARGEST_SHARE))


def student_t_975(degrees: int) -> float:
    """The 97.5 % point of Student's t: Abramowitz and Stegun, 26.7.5; from 4 degrees on within 0.002.

    >>> round(student_t_975(10), 3), round(student_t_975(10_000), 3)
    (2.228, 1.96)
    """
    z = 1.959964
    terms: tuple[float, ...] = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))


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
