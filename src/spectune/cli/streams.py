"""The standard streams, made fit for every command whatever started it: cron, a closed terminal, LANG=C."""

import os
import sys
from io import TextIOWrapper

from spectune.errors import OutputError


def prepare_streams() -> None:
    """Puts /dev/null where a stream is closed, and makes what we print UTF-8, as our files are."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:  # else a file opened later would become stdout
        descriptor = os.dup(descriptor)
    os.close(descriptor)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (lives as long as we do)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")


def print_out(text: str) -> None:
    """Writes a result to stdout.

    Raises:
        OutputError: it cannot be written; BrokenPipeError passes through, its reader has seen enough.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        discard_stdout()
        raise OutputError(f"stdout: `it can be written` must hold, got: {exc.strerror}.") from exc


def discard_stdout() -> None:
    """Keeps the interpreter from writing what is left when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
