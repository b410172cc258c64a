"""The seam to how a server is kept: started, watched, stopped."""

from typing import Protocol

from spectune.domain.command import Command
from spectune.domain.endpoint import Endpoint


class RunningServer(Protocol):
    """A server that was started and not yet stopped."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it is reached from here."""

    @property
    def log_path(self) -> str:
        """Where the user can read its log."""

    def exit_status(self) -> int | None:
        """Its exit status (negative: a signal), or None while it runs."""

    def process_ids(self) -> tuple[int, ...]:
        """Processes of it that run on this machine."""

    def log_text(self, max_bytes: int = 262_144) -> str:
        """The end of its log."""

    def stop(self) -> None:
        """Ends it and everything it started, and returns when nothing of it is left.

        Safe to call twice. Raises LaunchError when something of it would not go away.
        """


class Launcher(Protocol):
    """Starts servers, one at a time."""

    def file_for(self, name: str) -> str:
        """Where on the serving machine `start` of this name puts its `file_text`, for a command to name."""

    def start(self, command: Command, endpoint: Endpoint, *, name: str, file_text: str = "") -> RunningServer:
        """Starts `command`, which will listen on `endpoint`.

        Args:
            command: what to run, word for word.
            endpoint: the address to check before the start.
            name: short name for log files, unique within a study.
            file_text: what the server will read from `file_for(name)`; "" for no file.

        Raises:
            PortInUse: something else listens there.
            LaunchError: the command could not be run.
        """
