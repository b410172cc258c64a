"""The engine process: takes messages in, steps, sends what was emitted.

It is a process of its own because a busy Python thread beside it slows graph calls two- to fourfold.
"""

import ctypes
import select
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from spectune.cpu_engine.assembly import build_engine
from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.messages import Broken, Cancel, Flush, Flushed, StepOutput, Submit
from spectune.cpu_engine.options import EngineOptions

_PR_SET_PDEATHSIG = 1


def run_worker(connection: Connection) -> None:
    """Serves the front at the other end of `connection`, which first says the options, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the front decides
    die_with_parent()
    options: EngineOptions = connection.recv()
    try:
        engine, ready = build_engine(options)
    except (ValueError, OSError, KeyError) as error:
        connection.send(Broken(f"{type(error).__name__}: {error}"))
        return
    connection.send(ready)
    try:
        _serve(engine, connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the front is gone


def die_with_parent() -> None:
    """Asks Linux to end this process when its parent dies, however it dies; elsewhere does nothing."""
    prctl: Callable[..., int] | None = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve(engine: Engine, connection: Connection) -> None:
    poller = select.poll()  # Connection.poll() makes a selector at every call: dearer than a small step
    poller.register(connection.fileno(), select.POLLIN)
    while True:
        if not engine.has_work:
            _take(engine, connection)
        while poller.poll(0):
            _take(engine, connection)
        if engine.has_work:
            connection.send(engine.step())


def _take(engine: Engine, connection: Connection) -> None:
    message: Submit | Cancel | Flush = connection.recv()
    match message:
        case Submit() as request:
            engine.submit(request)
        case Cancel(request_id):
            engine.cancel(request_id)
            connection.send(StepOutput(stats=engine.stats))
        case Flush():
            connection.send(Flushed(engine.flush()))


if __name__ == "__main__":
    run_worker(Connection(int(sys.argv[1])))
