"""Runs commands on this machine."""

import subprocess

from spectune.domain.endpoint import Endpoint
from spectune.errors import HostUnreachable, LaunchError
from spectune.launch.host import HostAnswer

_LET_END_S = 10.0
SUDO = ("sudo", "-n", "--")


class LocalHost:
    """See `Host`."""

    name = "this machine"
    is_local = True

    def __init__(self, *, prefix: tuple[str, ...] = ()) -> None:
        """`prefix` stands before every command, such as `SUDO`."""
        self._prefix = prefix

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        """In a session of its own: Ctrl-C reaches the tuner, not a change in the middle."""
        return run_words((*self._prefix, *argv), stdin=stdin, timeout_s=timeout_s)

    def reach(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint itself."""
        return endpoint

    def close(self) -> None:
        """Nothing is open."""


def run_words(argv: tuple[str, ...], *, stdin: str, timeout_s: float) -> HostAnswer:
    """Runs a command here; raises LaunchError or HostUnreachable (no end in time)."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise LaunchError(f"{argv[0]}: `it can be run` must hold, got: {error}; is it installed?") from error
    with process:
        try:
            out, err = process.communicate(stdin.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise HostUnreachable(f"{argv[0]}: `an end within {timeout_s:g} s` must come.") from error
        except BaseException:
            _let_end(process)
            raise
    return HostAnswer(
        status=process.returncode, stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace")
    )


def _let_end(process: subprocess.Popen[bytes]) -> None:
    """A change that is being made when we are interrupted comes to its end."""
    try:
        process.communicate(timeout=_LET_END_S)
    except (subprocess.TimeoutExpired, ValueError):
        process.kill()
