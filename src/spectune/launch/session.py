"""The processes of one session, read from /proc. A server's session is named by its first process."""

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def session_members(session: int) -> tuple[int, ...]:
    """Living processes of the session, zombies left out."""
    members: list[int] = []
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError, IndexError):
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] not in ("Z", "X"):
                    members.append(int(folder.name))
    return tuple(members)


def signal_session(session: int, number: signal.Signals) -> None:
    """Sends a signal to each member.

    The session's leader must not have been reaped, so that its number cannot have passed to another.
    """
    for pid in session_members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
