"""Ctrl-C, SIGTERM and a closed terminal: the first one unwinds the work, later ones do not disturb that."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(SystemExit):
    """A signal asked us to stop; the exit status is 128 + its number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal_name = signal.Signals(number).name


class TimeOver(SystemExit):
    """The agreed downtime is over: what is being done is unwound. Event loops let it pass."""


@contextmanager
def time_limit(limit_s: float | None) -> Iterator[None]:
    """Raises `TimeOver` in the main thread when the block lasts longer; None for no limit."""
    if limit_s is None:
        yield
        return

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TimeOver(1)

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(limit_s, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignores the signals for the length of the block: a service is being given back."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turns the first signal into `Interrupted`; more of them are ignored from then on, to the very end."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    ignored = {number for number in _SIGNALS if before[number] == signal.SIG_IGN}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        _announce()
        raise Interrupted(number)

    for number in _SIGNALS:
        if number not in ignored:  # nohup and the like keep what they set
            signal.signal(number, interrupt)
    try:
        yield
    except Interrupted:
        raise
    except BaseException:
        _restore(before)
        raise
    else:
        _restore(before)


def _restore(handlers: dict[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _announce() -> None:
    """Says that the signal came, by a system call alone: we are in a handler."""
    try:
        os.write(sys.stderr.fileno(), b"spectune: stopping the server, a moment\n")
    except OSError:  # the terminal has gone: what is still said goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
