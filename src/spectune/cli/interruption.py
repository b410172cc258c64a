"""Ctrl-C, SIGTERM and a closed terminal: the first one unwinds the work, later ones do not disturb that."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(SystemExit):
    """A signal asked us to stop; the exit status is 128 + its number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal_name = signal.Signals(number).name


@contextmanager
def interruptible() -> Iterator[None]:
    """Turns the first signal into `Interrupted`; ignores more of them while the work unwinds."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    ignored = {number for number in _SIGNALS if before[number] == signal.SIG_IGN}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, _wait_please)
        raise Interrupted(number)

    for number in _SIGNALS:
        if number not in ignored:  # nohup and the like keep what they set
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in _SIGNALS:
            signal.signal(number, before[number])


def _wait_please(_number: int, _frame: FrameType | None) -> None:
    sys.stderr.write("stopping the server, a moment\n")
