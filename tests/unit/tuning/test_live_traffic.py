from collections.abc import Callable

from spectune.domain.command import HttpRequest
from spectune.domain.measurement import LevelMeasurement, RequestRecord, SpecCounters
from spectune.errors import ServerUnreachable
from spectune.testing.recording import FakeClock
from spectune.tuning.live_traffic import busiest, foreign_requests


def answers(*pages: str) -> Callable[[HttpRequest], str]:
    """One page after the other, the last one for ever; "" is a server that does not answer."""
    left = list(pages)

    def ask(request: HttpRequest) -> str:
        assert request.path == "/metrics"
        page = left.pop(0) if len(left) > 1 else left[0]
        if not page:
            raise ServerUnreachable("no answer")
        return page

    return ask


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


def test_an_idle_server_serves_nobody_over_the_whole_window() -> None:
    clock = FakeClock()
    idle = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"
    assert busiest(answers(idle), clock, window_s=3.0) == 0
    assert clock.now_s - 1000.0 >= 3.0


def test_one_request_within_the_window_is_seen() -> None:
    idle, busy = "vllm:num_requests_running 0\n", 'vllm:num_requests_running{model_name="m"} 2\n'
    assert busiest(answers(idle, idle, busy, idle), FakeClock(), window_s=3.0) == 2


def test_waiting_requests_count_too() -> None:
    page = "spectune:num_requests_running 0\nspectune:num_requests_waiting 1\n"
    assert busiest(answers(page), FakeClock(), window_s=1.0) == 1


def test_a_server_without_such_metrics_cannot_be_told() -> None:
    assert busiest(answers("other 1\n"), FakeClock(), window_s=1.0) is None
    assert busiest(answers(""), FakeClock(), window_s=1.0) is None
    assert busiest(answers("not prometheus{"), FakeClock(), window_s=1.0) is None


def test_tokens_that_we_did_not_ask_for_are_somebody_elses() -> None:
    assert foreign_requests(level(1000, 500, 500)) == ""
    assert foreign_requests(level(1010, 500, 500)) == ""
    assert "1500 tokens" in foreign_requests(level(1500, 500, 500))
    assert foreign_requests(level(1500, 500, 500, error="reset")) == ""
