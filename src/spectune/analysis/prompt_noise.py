"""How much of a difference between cells the prompts explain. From raw records.

symbol   meaning                                                unit      shape
T_i      output tokens of request i                             tokens    [num_requests]
D_i      seconds request i kept its slot (end − send)           s         [num_requests]
c_i      requests in flight when request i was sent             1         [num_requests]
S_i      D_i, of a ramp D_i/c_i: its share of the wall time     s         [num_requests]
u_i      influence of request i on log(ΣT / ΣS)                 1         [num_requests]

In a closed loop with all slots busy, tokens/s = concurrency · ΣT / ΣD, so log(ΣT/ΣD) carries the noise of
log(tokens/s). By the delta method (ratio of sums) u_i = T_i/ΣT − S_i/ΣS, and the covariance of two cells
that sent the same prompts is n/(n−1) · Σ u_i(a) u_i(b). The variance of their difference is that of
u_i(a) − u_i(b): what the prompts themselves vary by cancels.
"""

from collections.abc import Sequence

import numpy as np

from spectune.domain.measurement import LevelMeasurement, RequestRecord
from spectune.perfmodel.arrays import Floats, Ints

MIN_COMMON = 5
"""Fewest common prompts from which noise is estimated."""


def covariance(levels: Sequence[LevelMeasurement]) -> Floats:
    """Covariance of the log speeds of cells that sent the same prompts.

    Args:
        levels: [num_cells] cells of one level and part.

    Returns:
        [num_cells, num_cells]
    """
    places = _places(levels)
    influence = np.zeros((len(levels), len(places)))
    for row, level in enumerate(levels):
        records = _good(level)
        influence[row, [places[record.index] for record in records]] = _influences(level, records)
    count = len(places)
    return np.asarray(influence @ influence.T * (count / max(count - 1, 1)))


def num_common(levels: Sequence[LevelMeasurement]) -> Ints:
    """How many prompts each two cells both answered. Shape [num_cells, num_cells]."""
    places = _places(levels)
    is_answered = np.zeros((len(levels), len(places)), dtype=np.int64)
    for row, level in enumerate(levels):
        is_answered[row, [places[record.index] for record in _good(level)]] = 1
    return np.asarray(is_answered @ is_answered.T)


def half_contrasts(levels: Sequence[LevelMeasurement]) -> tuple[Floats, Floats] | None:
    """Log speed of the first half of the common prompts less that of the second, with its covariance.

    Args:
        levels: [num_cells] cells of one level and part.

    Returns:
        Contrasts [num_cells] and their covariance due to the prompts [num_cells, num_cells]; None where a
        half has too few prompts.
    """
    common = sorted(set.intersection(*({record.index for record in _good(level)} for level in levels)))
    middle = len(common) // 2
    if middle < MIN_COMMON:
        return None
    contrasts = np.zeros(len(levels))
    total = np.zeros((len(levels), len(levels)))
    for sign, half in ((1.0, set(common[:middle])), (-1.0, set(common[middle:]))):
        influence = np.zeros((len(levels), len(half)))
        for row, level in enumerate(levels):
            records = [record for record in _good(level) if record.index in half]
            contrasts[row] += sign * _log_ratio(records)
            influence[row] = _influences(level, records)
        total += influence @ influence.T * (len(half) / (len(half) - 1))
    return contrasts, total


def _good(level: LevelMeasurement) -> list[RequestRecord]:
    return sorted((record for record in level.records if record.is_ok), key=lambda record: record.index)


def _places(levels: Sequence[LevelMeasurement]) -> dict[int, int]:
    indexes = sorted({record.index for level in levels for record in level.records if record.is_ok})
    return {index: place for place, index in enumerate(indexes)}


def _seconds(records: Sequence[RequestRecord]) -> Floats:
    return np.array([record.ended_at_s - record.sent_at_s for record in records], dtype=np.float64)


def _tokens(records: Sequence[RequestRecord]) -> Floats:
    return np.array([record.output_tokens or 0 for record in records], dtype=np.float64)


def _log_ratio(records: Sequence[RequestRecord]) -> float:
    return float(np.log(max(_tokens(records).sum(), 1.0) / _seconds(records).sum()))


def _influences(level: LevelMeasurement, records: Sequence[RequestRecord]) -> Floats:
    tokens, seconds = _tokens(records), _seconds(records)
    if level.part == "ramp":
        seconds = seconds / _in_flight(records)
    return np.asarray(tokens / max(tokens.sum(), 1.0) - seconds / seconds.sum())


def _in_flight(records: Sequence[RequestRecord]) -> Floats:
    """Requests in flight when each was sent, itself included. Shape [num_requests]."""
    sent = np.sort([record.sent_at_s for record in records])
    ended = np.sort([record.ended_at_s for record in records])
    starts = np.array([record.sent_at_s for record in records])
    begun = np.searchsorted(sent, starts, side="right")
    over = np.searchsorted(ended, starts, side="right")
    return np.asarray(np.maximum(begun - over, 1), dtype=np.float64)
