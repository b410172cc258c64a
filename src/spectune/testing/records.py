"""Records and levels made by hand, for tests of what is computed from them."""

from collections.abc import Sequence

from spectune.domain.measurement import LevelMeasurement, RequestRecord, SpecCounters


def request_record(
    *,
    index: int = 0,
    sent_at_s: float = 0.0,
    chunk_times_s: Sequence[float] = (1.0, 2.0),
    chunk_tokens: Sequence[int] = (),
    ended_at_s: float | None = None,
    output_tokens: int | None = 2,
    error: str = "",
) -> RequestRecord:
    """A record of a request that ended with its last chunk unless told otherwise."""
    times_s = tuple(chunk_times_s)
    last_s = times_s[-1] if times_s else sent_at_s
    return RequestRecord(
        index=index,
        due_at_s=sent_at_s,
        sent_at_s=sent_at_s,
        chunk_times_s=times_s,
        chunk_tokens=tuple(chunk_tokens),
        ended_at_s=last_s if ended_at_s is None else ended_at_s,
        prompt_tokens=8,
        output_tokens=output_tokens,
        finish_reason="" if error else "length",
        output_text="",
        error=error,
    )


def level_measurement(
    records: Sequence[RequestRecord],
    *,
    concurrency: int = 1,
    counters: SpecCounters | None = None,
    foreign_cpu_share: float | None = 0.0,
    attempt: int = 0,
) -> LevelMeasurement:
    """A level of these records, as long as the latest of them."""
    return LevelMeasurement(
        concurrency=concurrency,
        attempt=attempt,
        records=tuple(records),
        counters=counters,
        foreign_cpu_share=foreign_cpu_share,
        wall_s=max((record.ended_at_s for record in records), default=0.0),
        started_unix_s=0.0,
    )
