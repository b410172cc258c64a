"""Keeps a server as a child process in a session of its own, with its output in a log file.

Nothing outlives the tuner, however it ends: on a normal way out `stop` ends the whole session; when the
tuner is killed, the kernel signals the server (PR_SET_PDEATHSIG) and a watcher, a shell waiting on a
pipe that only the tuner holds open, ends what is left of the session.
"""

import ctypes
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from spectune.clock import Clock
from spectune.domain.command import Command
from spectune.domain.endpoint import Endpoint
from spectune.errors import LaunchError
from spectune.launch.port import check_port_free, wait_port_free
from spectune.launch.session import session_members, signal_session

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
# $1: the session's group. A line on stdin means "stopped in good order"; end of file: the tuner is gone.
_WATCHER = """
read -r _ && exit 0
kill -s TERM -- "-$1" 2>/dev/null || exit 0
n=0
while [ $n -lt 50 ]; do kill -s 0 -- "-$1" 2>/dev/null || exit 0; sleep 0.1; n=$((n+1)); done
kill -s KILL -- "-$1" 2>/dev/null
"""


class SubprocessLauncher:
    """See `Launcher`."""

    def __init__(self, log_folder: Path, clock: Clock, *, drain_s: float = 10.0) -> None:
        """Logs go to `log_folder`; `drain_s` is the time between SIGTERM and SIGKILL."""
        self._log_folder, self._clock, self._drain_s = log_folder, clock, drain_s

    def file_for(self, name: str) -> str:
        """Beside the log."""
        return str((self._log_folder / f"{name}.json").absolute())

    def start(
        self, command: Command, endpoint: Endpoint, *, name: str, file_text: str = ""
    ) -> "SubprocessServer":
        """Starts the command; its environment is ours plus the command's.

        To be called from a thread that lives as long as the tuner: the kernel ends the server with it.
        """
        check_port_free(endpoint)
        log_path = self._log_folder / f"{name}.log"
        try:
            self._log_folder.mkdir(parents=True, exist_ok=True)
            if file_text:
                Path(self.file_for(name)).write_text(file_text, encoding="utf-8")
            log = log_path.open("wb")
        except OSError as error:
            raise LaunchError(f"log file {log_path}: cannot be written ({error.strerror}).") from error
        with log:
            try:
                process = subprocess.Popen(  # words, never shell text
                    command.argv,
                    env={**os.environ, **dict(command.env)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509  (only a system call; no threads here)
                )
            except (OSError, ValueError) as error:
                raise LaunchError(
                    f"serve command: {command.argv[0]!r} cannot be run ({error}); is it on PATH?"
                ) from error
        return SubprocessServer(process, endpoint, log_path, self._clock, self._drain_s)


class SubprocessServer:
    """See `RunningServer`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        endpoint: Endpoint,
        log_path: Path,
        clock: Clock,
        drain_s: float,
    ) -> None:
        """Takes over a process that leads its own session, and sets the watcher on it."""
        self._process, self._endpoint, self._log_path = process, endpoint, log_path
        self._clock, self._drain_s = clock, drain_s
        self._is_stopped = False
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER, "spectune-watcher", str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def endpoint(self) -> Endpoint:
        """As given at the start."""
        return self._endpoint

    @property
    def log_path(self) -> str:
        """The log file."""
        return str(self._log_path)

    def exit_status(self) -> int | None:
        """The leader's status. It is not reaped before `stop`, so its number stays ours."""
        if self._process.returncode is not None:
            return self._process.returncode
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def process_ids(self) -> tuple[int, ...]:
        """All living members of the session."""
        return () if self._is_stopped else session_members(self._process.pid)

    def log_text(self, max_bytes: int = 262_144) -> str:
        """The end of the log file."""
        try:
            with self._log_path.open("rb") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - max_bytes, 0))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def stop(self) -> None:
        """SIGTERM to the session, SIGKILL after the drain time, then waits for the port."""
        if self._is_stopped:
            return
        signal_session(self._process.pid, signal.SIGTERM)
        if not self._wait_gone(self._drain_s):
            signal_session(self._process.pid, signal.SIGKILL)
            if not self._wait_gone(10.0):
                raise LaunchError(
                    f"server (processes {session_members(self._process.pid)}): `SIGKILL ends it` must hold, "
                    "but it is still there after 10 s; it may hang in a driver call."
                )
        self._process.wait()
        self._is_stopped = True
        self._dismiss_watcher()
        wait_port_free(self._endpoint, deadline_s=10.0, clock=self._clock)

    def _wait_gone(self, duration_s: float) -> bool:
        give_up_s = self._clock.monotonic_s() + duration_s
        while session_members(self._process.pid):
            if self._clock.monotonic_s() > give_up_s:
                return False
            self._clock.sleep(0.02)
        return True

    def _dismiss_watcher(self) -> None:
        with suppress(BrokenPipeError):
            self._watcher.communicate(b"stopped\n", timeout=5.0)


def die_with_parent() -> None:
    """Runs in the child before exec: the kernel sends SIGTERM when the tuner's thread ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
