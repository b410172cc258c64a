"""Latencies of one request, in seconds.

    ttft   first content chunk − send
    tpot   (last − first chunk) ÷ (output tokens − 1); absent for one token
    e2e    end − send

So ttft + tpot · (output tokens − 1) = last chunk − send. A gap between chunks is not an inter-token latency:
under speculation a chunk holds several tokens.
"""

from spectune.domain.measurement import RequestRecord


def ttft_s(record: RequestRecord) -> float | None:
    """Time to the first content chunk; None for a request without one."""
    return record.chunk_times_s[0] - record.sent_at_s if record.chunk_times_s else None


def tpot_s(record: RequestRecord) -> float | None:
    """Mean time per output token after the first; None for fewer than two tokens or chunks."""
    if record.output_tokens is None or record.output_tokens < 2 or len(record.chunk_times_s) < 2:
        return None
    return (record.chunk_times_s[-1] - record.chunk_times_s[0]) / (record.output_tokens - 1)


def e2e_s(record: RequestRecord) -> float:
    """Time from send to the end of the stream."""
    return record.ended_at_s - record.sent_at_s
