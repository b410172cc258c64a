"""The steady window of a closed-loop level, and the output tokens inside it.

    symbol   meaning                                                        unit
    C        concurrency                                                    1
    start    first moment at which C requests were in flight                s
    end      first end of a request after the last was sent: a slot idles   s
    N(t)     output tokens that had arrived by t, over all requests         1

Before `start` slots are still empty, after `end` they run dry: either would read as a slower server.
N(t) follows the engine's cumulative counts at each chunk where it gives them, else a request's tokens are
spread evenly from its first to its last chunk. Chunks are never counted as tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spectune.domain.measurement import RequestRecord

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span of a level, in seconds since its begin; `start_s < end_s`."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def steady_window(records: Sequence[RequestRecord], concurrency: int) -> Window | None:
    """The window in which all slots were busy, or None when they never were.

    Args:
        records: of one level, in any order, failed ones included: they kept a slot busy too.
        concurrency: C.
    """
    if len(records) < concurrency:
        return None
    sent = np.sort(np.array([record.sent_at_s for record in records]))  # [num_requests]
    ended = np.sort(np.array([record.ended_at_s for record in records]))  # [num_requests]
    ended_before = np.searchsorted(ended, sent, side="right")
    in_flight = np.arange(1, len(sent) + 1) - ended_before
    busy = np.flatnonzero(in_flight >= concurrency)
    after_last = ended[ended > sent[-1]]
    if not len(busy) or not len(after_last):
        return None
    start_s, end_s = float(sent[busy[0]]), float(after_last[0])
    return Window(start_s=start_s, end_s=end_s) if end_s > start_s else None


def tokens_until(records: Sequence[RequestRecord], times_s: Floats) -> Floats:
    """N(t) for each time.

    Args:
        records: in any order; those without a token count add nothing.
        times_s: [num_times], ascending.

    Returns:
        [num_times]
    """
    arrived = np.zeros(len(times_s))
    for record in records:
        arrived += _request_tokens_until(record, times_s)
    return arrived


def mean_running(records: Sequence[RequestRecord], window: Window) -> float:
    """Mean number of sequences between their first and their last chunk, over the window.

    Requests that wait in the server's queue or are in prefill are not counted.
    """
    spans = [
        (record.chunk_times_s[0], record.chunk_times_s[-1]) for record in records if record.chunk_times_s
    ]
    inside = (min(last, window.end_s) - max(first, window.start_s) for first, last in spans)
    return sum(max(span_s, 0.0) for span_s in inside) / window.length_s


def _request_tokens_until(record: RequestRecord, times_s: Floats) -> Floats:
    chunks = np.array(record.chunk_times_s)  # [num_chunks]
    if not len(chunks):
        return np.zeros(len(times_s))
    if record.chunk_tokens:
        counts = np.array((0, *record.chunk_tokens), dtype=float)  # [num_chunks + 1]
        counts[-1] = max(counts[-1], record.output_tokens or 0)  # a last token may show no text
        return np.asarray(counts[np.searchsorted(chunks, times_s, side="right")])
    total = float(record.output_tokens or 0)
    if chunks[-1] <= chunks[0]:
        return np.where(times_s >= chunks[0], total, 0.0)
    return np.asarray(np.interp(times_s, chunks[[0, -1]], (0.0, total)))
