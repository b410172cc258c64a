"""Executes a planned list of requests in a closed loop, and gives up on a server that is dead or hangs."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from spectune.clock import Clock
from spectune.domain.measurement import RequestRecord
from spectune.domain.workload import PlannedRequest
from spectune.loadgen.stream_client import LoadTarget, RawStream, StreamClient, streamed_body
from spectune.loadgen.stream_content import StreamContent, read_stream

_WATCH_S = 0.2
_FEWEST_SUCCEEDED = 2
Ramp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """When to give up.

    Attributes:
        hang_s: no event of any request for so long while some are in flight.
        max_refused: connections refused in a row.
        min_failures: failures in a row, or twice the concurrency if that is more.
        stop_sending_after_s: no request is begun later than this; None: the whole list is sent.
    """

    hang_s: float = 20.0
    max_refused: int = 3
    min_failures: int = 8
    stop_sending_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Why a load was given up.

    Attributes:
        kind: "dead": connections are refused or break, one after the other; "hang": no event comes;
            "failing": request after request fails.
        detail: one sentence.
    """

    kind: Literal["dead", "hang", "failing"]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRun:
    """What came of a list of requests.

    Attributes:
        records: one per request that was sent, in order of index; failures are records with an error.
        num_unreadable: how many failed because the answer made no sense.
        wall_s: from the start to the last end.
        started_unix_s: when it began.
        abort: why it was given up, or None.
    """

    records: tuple[RequestRecord, ...]
    num_unreadable: int
    wall_s: float
    started_unix_s: float
    abort: Abort | None


def run_load(
    requests: Sequence[PlannedRequest],
    *,
    concurrency: int,
    target: LoadTarget,
    clock: Clock,
    limits: LoadLimits | None = None,
    request_done: Callable[[], None] = lambda: None,
    ramp: Ramp = (),
) -> LoadRun:
    """Sends all requests, `concurrency` at a time, and returns when the last has ended.

    Args:
        requests: in the order they are sent.
        concurrency: in flight at once; under a ramp, at most.
        target: the server.
        clock: source of time.
        limits: when to give up.
        request_done: called at the end of each request.
        ramp: (place of a request, requests in flight from it on), places ascending from 0; empty: constant.
    """
    load = _Load(requests, concurrency, target, clock, limits or LoadLimits(), request_done)
    load.follow(ramp)
    started_unix_s, started_s = clock.unix_s(), clock.monotonic_s()
    asyncio.run(load.run(started_s))
    wall_s = clock.monotonic_s() - started_s
    contents = [read_stream(stream.pieces) if not stream.error else None for stream in load.sent]
    pairs = sorted(zip(load.sent, contents, strict=True), key=lambda pair: pair[0].request.index)
    return LoadRun(
        records=tuple(_record(stream, content, started_s) for stream, content in pairs),
        num_unreadable=sum(
            stream.is_unreadable or (content is not None and content.is_unreadable)
            for stream, content in pairs
        ),
        wall_s=wall_s,
        started_unix_s=started_unix_s,
        abort=load.abort,
    )


class _Load:
    """One run of the loop."""

    def __init__(
        self,
        requests: Sequence[PlannedRequest],
        concurrency: int,
        target: LoadTarget,
        clock: Clock,
        limits: LoadLimits,
        request_done: Callable[[], None],
    ) -> None:
        self._waiting = deque((request, streamed_body(request, target)) for request in requests)
        self._concurrency, self._target, self._clock = concurrency, target, clock
        self._limits, self._request_done = limits, request_done
        self._refused = self._failures = self._lost = self._taken = self._succeeded = 0
        self._stop, self._turn, self._is_spread = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ramp: Ramp = ()
        self._in_flight: dict[int, RawStream] = {}
        self.sent: list[RawStream] = []
        self.abort: Abort | None = None

    def follow(self, ramp: Ramp) -> None:
        """Keeps as many requests in flight as the ramp says."""
        self._ramp = ramp

    async def run(self, started_s: float) -> None:
        """Runs the slots until the list is done or the watch gives up."""
        async with StreamClient(self._target, self._clock) as client:
            slots = [asyncio.create_task(self._slot(client, started_s, i)) for i in range(self._concurrency)]
            watch = asyncio.create_task(self._watch(client))
            ending = asyncio.create_task(self._end_when_done(slots))
            try:
                await self._stop.wait()
            finally:
                for task in (*slots, watch, ending):
                    task.cancel()
                results = await asyncio.gather(*slots, watch, ending, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _end_when_done(self, slots: Sequence["asyncio.Task[None]"]) -> None:
        await asyncio.wait(slots)
        self._stop.set()

    async def _slot(self, client: StreamClient, started_s: float, slot: int) -> None:
        """Sends one request after the other, while so many slots are wanted."""
        while self._waiting and self._may_send(started_s):
            if slot >= self._num_slots():
                await self._turn.wait()
                continue
            request, body = self._waiting.popleft()
            self._taken += 1
            self._wake_idle_slots()
            await self._wait_for_start(started_s + request.start_after_s - self._clock.monotonic_s())
            stream = RawStream(request=request, due_at_s=self._clock.monotonic_s())
            self.sent.append(stream)
            self._in_flight[request.index] = stream
            await client.send(stream, body)
            del self._in_flight[request.index]
            self._judge(stream)
            if not stream.error:
                self._note_success()
            self._request_done()
        self._wake_idle_slots()

    async def _wait_for_start(self, wait_s: float) -> None:
        """Waits until a request may start, no longer than the opening has still to be spread."""
        if wait_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_spread.wait(), wait_s)

    def _note_success(self) -> None:
        """Ends the spreading once a request has succeeded for every slot that works: they are spread by now.

        Requests far shorter than the plan believed would else be used up before the last slot begins. One
        short answer says nothing of the others, and a refused request nothing at all.
        """
        self._succeeded += 1
        if self._succeeded >= max(_FEWEST_SUCCEEDED, len(self._in_flight) + 1):
            self._is_spread.set()

    def _num_slots(self) -> int:
        """Slots wanted for the next request."""
        return next((size for first, size in reversed(self._ramp) if self._taken >= first), self._concurrency)

    def _wake_idle_slots(self) -> None:
        """Lets slots that wait for the ramp look again."""
        self._turn.set()
        self._turn = asyncio.Event()

    def _may_send(self, started_s: float) -> bool:
        limit_s = self._limits.stop_sending_after_s
        return limit_s is None or self._clock.monotonic_s() - started_s < limit_s

    def _judge(self, stream: RawStream) -> None:
        """Counts failures in a row and gives up when there are too many."""
        if not stream.looks_complete and not stream.error:
            content = read_stream(stream.pieces)
            stream.error, stream.is_unreadable = content.error, content.is_unreadable
        self._refused = self._refused + 1 if stream.is_refused else 0
        self._failures = self._failures + 1 if stream.error else 0
        self._lost = self._lost + 1 if stream.is_lost else 0
        if self._refused >= self._limits.max_refused:
            self._give_up("dead", f"{self._refused} connections in a row were refused: {stream.error}")
        elif self._failures >= max(2 * self._concurrency, self._limits.min_failures):
            is_dead = self._lost == self._failures  # a dying server may reset before it refuses
            self._give_up(
                "dead" if is_dead else "failing",
                f"{self._failures} requests in a row failed; last: {stream.error}",
            )

    async def _watch(self, client: StreamClient) -> None:
        """Gives up when nothing comes while something is awaited."""
        client.last_progress_s = self._clock.monotonic_s()
        while True:
            await asyncio.sleep(min(_WATCH_S, self._limits.hang_s / 4))
            now_s = self._clock.monotonic_s()
            sent_s = [stream.sent_at_s for stream in self._in_flight.values()]
            latest_s = max([client.last_progress_s, *sent_s]) if sent_s else now_s
            if now_s - latest_s > self._limits.hang_s:
                self._give_up(
                    "hang",
                    f"`an event of some answer within {self._limits.hang_s:g} s` must come; "
                    f"{len(sent_s)} requests wait in vain.",
                )

    def _give_up(self, kind: Literal["dead", "hang", "failing"], detail: str) -> None:
        if self.abort is None:
            self.abort = Abort(kind=kind, detail=detail)
        self._stop.set()


def _record(stream: RawStream, content: StreamContent | None, started_s: float) -> RequestRecord:
    """The record, times relative to the level's begin; a failed stream keeps the chunks it had."""
    content = read_stream(stream.pieces) if content is None else content
    error = stream.error or content.error
    return RequestRecord(
        index=stream.request.index,
        due_at_s=stream.due_at_s - started_s,
        sent_at_s=stream.sent_at_s - started_s,
        chunk_times_s=tuple(at_s - started_s for at_s in content.chunk_times_s),
        chunk_tokens=content.chunk_tokens,
        ended_at_s=stream.ended_at_s - started_s,
        prompt_tokens=content.prompt_tokens,
        output_tokens=content.output_tokens,
        finish_reason="" if error else content.finish_reason,
        output_text=content.text,
        tool_calls=content.tool_calls,
        error=error,
    )
