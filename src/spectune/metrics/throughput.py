"""Speeds of a level.

    output_tps    output tokens inside the steady window ÷ its length          tokens/s
    request_tps   median over requests of output tokens ÷ (end − send)         tokens/s
    interval      mean ± t(19, 0.975) · s / √20 over 20 equal parts of the window

The interval is that of non-overlapping batch means (A. M. Law, *Simulation Modeling and Analysis*, 5th ed.,
section 9.5.3): parts that hold several requests' tokens are nearly independent though single tokens are not.
It tells the noise inside one launch; launch-to-launch noise is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.domain.measurement import RequestRecord
from spectune.metrics.steady_state import Window, tokens_until

NUM_BATCHES = 20
T_19_0975 = 2.0930  # Student's t, 19 degrees of freedom, two-sided 95 %
_MIN_TOKENS_PER_BATCH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpeed:
    """Total speed over the window.

    Attributes:
        tps: tokens per second.
        interval: 95 %, or None where fewer than 5 tokens fall on a part of the window.
    """

    tps: float
    interval: tuple[float, float] | None


def output_speed(records: Sequence[RequestRecord], window: Window) -> OutputSpeed:
    """Output tokens per second over the window, with its interval."""
    edges = np.linspace(window.start_s, window.end_s, NUM_BATCHES + 1)
    arrived = np.diff(tokens_until(records, edges))  # [NUM_BATCHES], tokens
    tps = float(arrived.sum()) / window.length_s
    if arrived.sum() < _MIN_TOKENS_PER_BATCH * NUM_BATCHES:
        return OutputSpeed(tps=tps, interval=None)
    rates = arrived / (window.length_s / NUM_BATCHES)
    half = T_19_0975 * float(rates.std(ddof=1)) / NUM_BATCHES**0.5
    return OutputSpeed(tps=tps, interval=(max(tps - half, 0.0), tps + half))


def request_tps(records: Sequence[RequestRecord]) -> float | None:
    """Median over good requests of output tokens ÷ (end − send); None when there is none."""
    speeds = [
        record.output_tokens / (record.ended_at_s - record.sent_at_s)
        for record in records
        if record.is_ok and record.output_tokens and record.ended_at_s > record.sent_at_s
    ]
    return float(np.median(speeds)) if speeds else None
