from spectune.domain.measurement import LevelMeasurement, RequestRecord, SpecCounters
from spectune.metrics.foreign_traffic import foreign_requests


def level(generated: int, *tokens: int, error: str = "") -> LevelMeasurement:
    records = tuple(
        RequestRecord(
            index=index, due_at_s=0.0, sent_at_s=0.0, chunk_times_s=(1.0,), chunk_tokens=(), ended_at_s=1.0,
            prompt_tokens=1, output_tokens=count, finish_reason="stop", output_text="", error=error,
        )
        for index, count in enumerate(tokens)
    )  # fmt: skip
    counters = SpecCounters(
        verify_steps=0, undrafted_steps=0, drafted_tokens=0, accepted_tokens=0, generated_tokens=generated
    )
    return LevelMeasurement(
        concurrency=1, attempt=0, records=records, counters=counters, foreign_cpu_share=None, wall_s=1.0,
        started_unix_s=0.0,
    )  # fmt: skip


def test_tokens_that_we_did_not_ask_for_are_somebody_elses() -> None:
    assert foreign_requests(level(1000, 500, 500)) == ""
    assert foreign_requests(level(1010, 500, 500)) == ""
    assert "1500 tokens" in foreign_requests(level(1500, 500, 500))
    assert foreign_requests(level(1500, 500, 500, error="reset")) == ""
