import itertools
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.endpoint import Endpoint
from spectune.domain.measurement import RequestRecord
from spectune.domain.workload import LoadPlan, PlannedRequest
from spectune.loadgen.driver import LoadLimits, LoadRun, run_load
from spectune.loadgen.stream_client import LoadTarget
from spectune.metrics.steady_state import steady_window
from spectune.testing.recording import free_port
from spectune.testing.simulation import running_simulation, simulated_pool
from spectune.workloads.load_plan import LevelSize, pilot_requests, plan_levels

POOL = simulated_pool(num_prompts=60)


def load(
    tmp_path: Path,
    *flags: str,
    num_requests: int = 20,
    concurrency: int = 4,
    limits: LoadLimits | None = None,
) -> LoadRun:
    with running_simulation(tmp_path, *flags) as server:
        return run_load(
            pilot_requests(POOL.prompts[:num_requests]),
            concurrency=concurrency,
            target=LoadTarget(endpoint=server.endpoint, model="simulated"),
            clock=SystemClock(),
            limits=limits,
        )


def test_every_request_is_recorded_with_tokens_by_usage(tmp_path: Path) -> None:
    run = load(tmp_path, "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3")
    assert run.abort is None
    assert [record.index for record in run.records] == list(range(20))
    for record in run.records:
        assert record.is_ok
        assert record.output_tokens == record.chunk_tokens[-1] == 24
        assert record.output_text.split() == [f"t{place}" for place in range(24)]
        assert record.due_at_s <= record.sent_at_s < record.chunk_times_s[0] <= record.chunk_times_s[-1]
        assert record.chunk_times_s[-1] <= record.ended_at_s <= run.wall_s
    assert any(len(record.chunk_times_s) < 24 for record in run.records), "chunks must not be tokens here"


def test_never_more_than_the_concurrency_is_in_flight(tmp_path: Path) -> None:
    run = load(tmp_path, concurrency=3)
    moments = [record.sent_at_s for record in run.records]
    in_flight = [
        sum(record.sent_at_s <= moment < record.ended_at_s for record in run.records) for moment in moments
    ]
    assert max(in_flight) == 3


def test_a_ramp_changes_how_many_are_in_flight(tmp_path: Path) -> None:
    with running_simulation(tmp_path) as server:
        run = run_load(
            pilot_requests(POOL.prompts[:30]),
            concurrency=6,
            target=LoadTarget(endpoint=server.endpoint, model="simulated"),
            clock=SystemClock(),
            ramp=((0, 2), (6, 6), (24, 1)),
        )
    assert [record.index for record in run.records] == list(range(30))
    in_flight = [
        sum(other.sent_at_s <= record.sent_at_s < other.ended_at_s for other in run.records)
        for record in run.records
    ]
    assert max(in_flight[:6]) == 2
    assert max(in_flight[6:24]) == 6
    assert max(in_flight[24:26]) > 1, "those in flight are not broken off"
    last_of_peak_s = max(record.ended_at_s for record in run.records[:24])
    assert all(
        count == 1
        for record, count in zip(run.records, in_flight, strict=True)
        if record.index >= 24 and record.sent_at_s > last_of_peak_s
    )


def test_starts_are_spread_as_planned(tmp_path: Path) -> None:
    long = simulated_pool(num_prompts=8, max_tokens=400)  # longer than the spread, as sizing plans them
    (plan,) = plan_levels(long, [LevelSize(concurrency=4, num_requests=8, num_warmup=0, spread_s=0.2)])
    with running_simulation(tmp_path) as server:
        run = run_load(
            plan.requests,
            concurrency=4,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
        )
    assert all(
        record.sent_at_s >= request.start_after_s
        for record, request in zip(run.records, plan.requests, strict=True)
    )


def test_requests_far_shorter_than_planned_do_not_run_out_before_every_slot_works(tmp_path: Path) -> None:
    """As on a GPU: a cold server's first second told of requests 18 times as long as they were."""
    (plan,) = plan_levels(POOL, [LevelSize(concurrency=16, num_requests=48, num_warmup=0, spread_s=60.0)])
    with running_simulation(tmp_path) as server:
        run = run_load(
            plan.requests,
            concurrency=16,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
        )
    assert len(run.records) == 48
    assert steady_window(run.records, 16) is not None
    assert run.wall_s < 45.0  # the last slot alone was to begin at 56 s


@pytest.mark.parametrize("is_refused", [False, True])
def test_one_early_end_does_not_start_every_slot_at_once(*, is_refused: bool) -> None:
    """The first request has one token, or is refused; the others last until all slots work."""
    (plan,) = plan_levels(POOL, [LevelSize(concurrency=4, num_requests=5, num_warmup=0, spread_s=2.0)])
    refusal = b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"
    calls, have_begun = itertools.count(1), threading.Event()

    def answer() -> Iterable[bytes]:
        call = next(calls)
        if call == len(plan.requests):
            have_begun.set()
        assert call == 1 or have_begun.wait(60.0)
        return [refusal] if is_refused and call == 1 else [STREAM, ONE_TOKEN]

    run = load_from(answer, requests=plan.requests, concurrency=4)
    assert sum(not record.is_ok for record in run.records) == is_refused
    assert [record.due_at_s >= request.start_after_s for record, request in _pairs(run, plan)] == [True] * 5


def _pairs(run: LoadRun, plan: LoadPlan) -> Iterable[tuple[RequestRecord, PlannedRequest]]:
    return zip(run.records, plan.requests, strict=True)


def test_sending_stops_when_told(tmp_path: Path) -> None:
    run = load(tmp_path, num_requests=60, concurrency=1, limits=LoadLimits(stop_sending_after_s=0.3))
    assert 0 < len(run.records) < 60
    assert run.abort is None


def test_a_dead_server_is_given_up_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    run = load(tmp_path, "--sim-fault", "die-after:8", num_requests=40)
    assert run.abort is not None
    assert run.abort.kind == "dead"
    assert sum(record.is_ok for record in run.records) >= 4
    assert any("connection" in record.error for record in run.records)


def test_a_server_that_breaks_every_connection_is_dead_though_none_is_refused() -> None:
    class Breaking(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Breaking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run = run_load(
            pilot_requests(POOL.prompts[:40]),
            concurrency=4,
            target=LoadTarget(endpoint=Endpoint(host="127.0.0.1", port=server.server_address[1]), model=""),
            clock=SystemClock(),
        )
        server.shutdown()
    assert run.abort is not None
    assert run.abort.kind == "dead"
    assert len(run.records) < 40


def test_a_hanging_server_is_given_up(tmp_path: Path) -> None:
    run = load(tmp_path, "--sim-fault", "hang-after:8", limits=LoadLimits(hang_s=0.6))
    assert run.abort is not None
    assert run.abort.kind == "hang"
    assert any(record.is_ok for record in run.records)
    assert {record.error for record in run.records if not record.is_ok} == {"given up: the level was aborted"}


def test_a_server_that_fails_request_after_request_is_given_up(tmp_path: Path) -> None:
    run = load(tmp_path, "--sim-fault", "errors-after:8", num_requests=60)
    assert run.abort is not None
    assert run.abort.kind == "failing"
    assert "HTTP 500" in run.abort.detail
    assert run.num_unreadable == 0
    assert len(run.records) < 60


def test_nonsense_is_counted_as_unreadable(tmp_path: Path) -> None:
    run = load(tmp_path, "--sim-fault", "garbage-after:1", num_requests=6)
    assert run.num_unreadable == 6
    assert not any(record.is_ok for record in run.records)


def test_nobody_listening_is_a_dead_server() -> None:
    run = run_load(
        pilot_requests(POOL.prompts[:20]),
        concurrency=2,
        target=LoadTarget(endpoint=Endpoint(host="127.0.0.1", port=free_port()), model=""),
        clock=SystemClock(),
    )
    assert run.abort is not None
    assert run.abort.kind == "dead"


@pytest.mark.parametrize("concurrency", [1, 3])
def test_requests_done_are_told_one_by_one(tmp_path: Path, concurrency: int) -> None:
    told: list[None] = []
    with running_simulation(tmp_path) as server:
        run_load(
            pilot_requests(POOL.prompts[:5]),
            concurrency=concurrency,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            request_done=lambda: told.append(None),
        )
    assert len(told) == 5


def load_from(
    answer: Callable[[], Iterable[bytes]],
    *,
    requests: Sequence[PlannedRequest] = pilot_requests(POOL.prompts[:2]),
    concurrency: int = 2,
    limits: LoadLimits | None = None,
) -> LoadRun:
    """One load of a server that gives this answer, piece by piece, to every connection."""

    class Answering(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            try:
                for piece in answer():
                    self.request.sendall(piece)
            except OSError:
                return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            return run_load(
                requests,
                concurrency=concurrency,
                target=LoadTarget(
                    endpoint=Endpoint(host="127.0.0.1", port=server.server_address[1]), model=""
                ),
                clock=SystemClock(),
                limits=limits,
            )
        finally:
            server.shutdown()
            thread.join()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ONE_TOKEN = (
    b'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}\n\n'
    b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'
    b"data: [DONE]\n\n"
)


def test_an_endless_stream_is_cut_off() -> None:
    event = b'data: {"choices": [{"text": "x"}]}\n\n' * 1000
    run = load_from(lambda: itertools.chain([STREAM], itertools.repeat(event)))
    assert {record.error for record in run.records} == {"endless stream: 24 tokens were asked for"}
    assert run.num_unreadable == 2


def test_comments_that_keep_a_connection_open_are_no_progress() -> None:
    def answer() -> Iterable[bytes]:
        yield STREAM
        while True:
            time.sleep(0.02)
            yield b": ping\n\n"

    run = load_from(answer, limits=LoadLimits(hang_s=0.5))
    assert run.abort is not None
    assert run.abort.kind == "hang"


def test_a_redirect_is_not_followed() -> None:
    run = load_from(
        lambda: [b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"]
    )
    assert [record.error for record in run.records] == ["HTTP 307:", "HTTP 307:"]
