"""The seam to where commands run: this machine, or another one over ssh."""

from dataclasses import dataclass
from typing import Protocol

from spectune.domain.endpoint import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnswer:
    """What a command on a host came back with.

    Attributes:
        status: its exit status.
        stdout: its output; bytes that are not UTF-8 are replaced.
        stderr: its messages.
    """

    status: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The last line it complained with, for messages."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit status {self.status}"


class Host(Protocol):
    """A machine on which commands are run as words; no word ever becomes shell text."""

    @property
    def name(self) -> str:
        """For messages: "this machine" or "ssh gpu1"."""

    @property
    def is_local(self) -> bool:
        """Whether its processes and ports are this machine's."""

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        """Runs a command to its end.

        Args:
            argv: program and arguments, seen in process lists: never secrets.
            stdin: what it reads; secrets go here.
            timeout_s: how long it may take.

        Raises:
            HostUnreachable: no connection, or no end in time; it may have run or not.
        """

    def reach(self, endpoint: Endpoint) -> Endpoint:
        """Where a server that listens on `endpoint` there is reached from here.

        Raises:
            HostUnreachable: no way to it.
        """

    def close(self) -> None:
        """Ends every connection that was opened."""
