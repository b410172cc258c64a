"""The front's side of the engine: starts the process, routes tokens to the requests that wait for them."""

import asyncio
import contextlib
import itertools
import multiprocessing
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from spectune.cpu_engine.messages import Broken, Cancel, Flush, Flushed, Ready, StepOutput, Submit
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.stats import Stats

WORKER = "spectune.cpu_engine.worker"
IDLE_STOP_WAIT_S = 0.2
STOP_WAIT_S = 5.0


class EngineGone(Exception):
    """The engine process could not start or has died."""


@dataclass(frozen=True, slots=True)
class Piece:
    """New tokens of a request; `finish` is "" until the last piece; `cached` counts reused prompt tokens."""

    tokens: list[int]
    finish: str
    cached: int


class EngineFront:
    """Owns the engine process. All methods belong to one event loop.

    A thread of its own sends: the engine may be waiting for us to take its output while we wait for it to
    take ours, and each pipe holds only a few hundred messages.
    """

    def __init__(self, options: EngineOptions) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            words = [sys.executable, "-m", WORKER, str(theirs.fileno())]
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        self._outbox: queue.SimpleQueue[EngineOptions | Submit | Cancel | Flush | None] = queue.SimpleQueue()
        self._outbox.put(options)
        threading.Thread(target=self._send_all, daemon=True).start()
        self._streams: dict[int, asyncio.Queue[Piece | None]] = {}
        self._flushes: list[asyncio.Future[bool]] = []
        self._ids = itertools.count(1)
        self.stats = Stats()
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait_ready(self) -> Ready:
        """What the engine says once its models are loaded; raises EngineGone."""
        loop = asyncio.get_running_loop()
        try:
            message = await loop.run_in_executor(None, self._connection.recv)
        except (EOFError, OSError) as error:
            raise EngineGone("the engine process died while it loaded the models") from error
        if isinstance(message, Broken):
            raise EngineGone(message.reason)
        assert isinstance(message, Ready), message
        loop.add_reader(self._connection.fileno(), self._receive)
        return message

    def next_id(self) -> int:
        """A fresh request id."""
        return next(self._ids)

    async def generate(self, request: Submit) -> AsyncGenerator[Piece]:
        """The request's pieces; leaving early cancels it. Raises EngineGone."""
        queue: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._streams[request.request_id] = queue
        try:
            self._send(request)
            while True:
                piece = await queue.get()
                if piece is None:
                    raise EngineGone("the engine process died")
                yield piece
                if piece.finish:
                    return
        finally:
            if self._streams.pop(request.request_id, None) is not None:
                with contextlib.suppress(EngineGone):  # then there is nothing left to cancel
                    self._send(Cancel(request.request_id))

    async def flush(self) -> bool:
        """Empties the prefix cache; False when the engine was busy and did not."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushes.append(answer)
        self._send(Flush())
        return await answer

    def stop(self) -> None:
        """Ends the engine process: it sees the connection close; killed if it does not go."""
        if not self.gone.done():
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
        self._outbox.put(None)
        self._connection.close()
        for wait_s, end in ((IDLE_STOP_WAIT_S, self._process.terminate), (STOP_WAIT_S, self._process.kill)):
            try:
                self._process.wait(wait_s)
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()

    def _send(self, message: Submit | Cancel | Flush) -> None:
        if self.gone.done():
            raise EngineGone("the engine process died")
        self._outbox.put(message)

    def _send_all(self) -> None:
        """Runs in the sending thread until the front stops or the engine has died, which `_receive` sees."""
        with contextlib.suppress(OSError):
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)

    def _receive(self) -> None:
        try:
            self._route(self._connection.recv())  # called again while there is more
        except (EOFError, OSError):
            self._fail()

    def _route(self, message: StepOutput | Flushed) -> None:
        if isinstance(message, Flushed):
            answer = self._flushes.pop(0)
            if not answer.done():  # else its client has left
                answer.set_result(message.was_idle)
            return
        self.stats = message.stats
        for request_id, tokens, finish, cached in zip(
            message.request_ids, message.tokens, message.finish, message.cached, strict=True
        ):
            queue = self._streams.get(request_id)
            if queue is None:
                continue  # cancelled while the step ran
            if finish:
                del self._streams[request_id]
            queue.put_nowait(Piece(tokens, finish, cached))

    def _fail(self) -> None:
        asyncio.get_running_loop().remove_reader(self._connection.fileno())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self.gone.set_result(f"the engine process died (exit status {self._process.returncode})")
        for stream in self._streams.values():
            stream.put_nowait(None)
        for flush in self._flushes:
            if not flush.done():
                flush.set_exception(EngineGone("the engine process died"))
