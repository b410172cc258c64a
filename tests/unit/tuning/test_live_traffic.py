from collections.abc import Callable

import pytest

from spectune.domain.command import HttpRequest
from spectune.errors import ServerUnreachable
from spectune.testing.recording import FakeClock
from spectune.tuning.live_traffic import busiest, running_requests


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


@pytest.mark.parametrize("gauge", ["NaN", "+Inf", "-1", "1e308"])
def test_a_gauge_that_cannot_be_is_not_believed(gauge: str) -> None:
    assert running_requests(lambda _: f"sglang:num_running_reqs {gauge}\n") is None
    assert running_requests(lambda _: "sglang:num_running_reqs 3.0\nsglang:num_queue_reqs 5.0\n") == 3
