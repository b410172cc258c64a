"""Whether a server serves somebody now, from its own gauges of running and waiting requests."""

from collections.abc import Callable, Sequence

from spectune.clock import Clock
from spectune.domain.command import HttpRequest
from spectune.engines.prometheus import parse_metrics, total
from spectune.errors import ProtocolError, ServerUnreachable

_GAUGES = (
    "spectune:num_requests_running", "spectune:num_requests_waiting",
    "sglang:num_running_reqs", "sglang:num_queue_reqs",
    "vllm:num_requests_running", "vllm:num_requests_waiting",
    "llamacpp:requests_processing", "llamacpp:requests_deferred",
)  # fmt: skip
_POLL_S = 0.25
MOST_REQUESTS = 1_000_000  # a gauge that says more, or less than none, is not believed
METRICS = HttpRequest(method="GET", path="/metrics")


def busiest(ask: Callable[[HttpRequest], str], clock: Clock, *, window_s: float) -> int | None:
    """The most requests seen running or waiting during a window; None when the server does not say.

    Args:
        ask: makes a request of the server; raises ServerUnreachable or ProtocolError.
        clock: source of time.
        window_s: how long to watch.
    """
    most: int | None = None
    give_up_s = clock.monotonic_s() + window_s
    while True:
        now = _gauges(ask, _GAUGES)
        if now is not None:
            most = max(most or 0, now)
        is_over = clock.monotonic_s() >= give_up_s
        if most or is_over:
            return most
        clock.sleep(_POLL_S)


def running_requests(ask: Callable[[HttpRequest], str]) -> int | None:
    """Requests that run now, waiting ones left out; None when the server does not say."""
    return _gauges(ask, _GAUGES[::2])


def _gauges(ask: Callable[[HttpRequest], str], names: Sequence[str]) -> int | None:
    try:
        samples = parse_metrics(ask(METRICS))
    except (ProtocolError, ServerUnreachable):
        return None
    values = [value for name in names if (value := total(samples, name)) is not None]
    if not values or not all(0 <= value <= MOST_REQUESTS for value in values):
        return None
    return int(sum(values))
