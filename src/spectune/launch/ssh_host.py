"""Runs commands on another machine through the user's own OpenSSH: config, agent, ProxyJump, ControlMaster.

One connection of ours (`ssh -N -M`, a child that dies with the tuner) carries commands and forwards; a
master that the user already has open is used instead. When the line drops, the next command connects
anew by itself, and forwards are put back under the same local port. Nothing is installed on the host. The
folder of its socket is removed by a small shell when the tuner dies, however that happens.
"""

import contextlib
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, HostUnreachable
from spectune.launch.host import HostAnswer
from spectune.launch.local_host import SUDO, run_words
from spectune.launch.subprocess_launcher import die_with_parent

_CONNECT_S = 30.0
_NO_CONNECTION = 255
_SWEEP_S = 10.0
# $1: our folder. Its stdin ends with the tuner, however that dies.
_SWEEPER = 'read -r _; rm -rf -- "$1"'
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")


class SshHost:
    """See `Host`."""

    is_local = False

    def __init__(self, destination: str, *, use_sudo: bool = False, config: str = "") -> None:
        """A host by the name ssh knows it by.

        Args:
            destination: `user@host` or an alias of the user's ssh config.
            use_sudo: run every command through `sudo -n`.
            config: an ssh config instead of the user's; "" for the user's.

        Raises:
            ConfigError: not a name that ssh would take for a host.
        """
        check_destination(destination)
        self.name = f"ssh {destination}"
        self._destination = destination
        self._prefix = SUDO if use_sudo else ()
        self._ssh = ("ssh", *(("-F", config) if config else ()), *_OPTIONS)
        self._folder = Path(tempfile.mkdtemp(prefix="spectune-"))  # short: a socket's path is bounded
        self._sweeper = subprocess.Popen(
            ["/bin/sh", "-c", _SWEEPER, "spectune-sweeper", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._socket = self._folder / "s"
        self._master: subprocess.Popen[bytes] | None = None
        self._forwards: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()
        self._is_users_master = self._control("check", socket_of="user").status == 0

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        """Every word is quoted for the remote shell."""
        with self._lock:
            self._connect()
        words = shlex.join((*self._prefix, *argv))
        answer = run_words(
            (*self._ssh, *self._via(), "-T", "--", self._destination, words),
            stdin=stdin,
            timeout_s=timeout_s,
        )
        if answer.status == _NO_CONNECTION:
            raise HostUnreachable(f"{self.name}: `the connection holds` must hold, got: {answer.complaint}.")
        return answer

    def reach(self, endpoint: Endpoint) -> Endpoint:
        """The host's own address where the port answers there, else a forward from a free local port."""
        direct = self._direct(endpoint)
        if direct is not None:
            return direct
        with self._lock:
            self._connect()
            key = (endpoint.connect_host, endpoint.port)
            if key not in self._forwards:
                port = _free_port()
                self._forward(key, port)
                self._forwards[key] = port
        return Endpoint(host="127.0.0.1", port=self._forwards[key], api_key=endpoint.api_key)

    def close(self) -> None:
        """Ends forwards and the master of ours."""
        with self._lock:
            if self._is_users_master:
                for key, port in self._forwards.items():
                    with contextlib.suppress(HostUnreachable):
                        self._control("cancel", "-L", _forward_words(key, port))
            self._end_master()
            self._forwards.clear()
            self._sweeper.communicate(timeout=_SWEEP_S)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self) -> None:
        """A living master, with the forwards there were."""
        if self._is_users_master:
            if self._control("check", socket_of="user").status == 0:
                return
            self._is_users_master = False
        if self._master is not None and self._master.poll() is None and self._socket.exists():
            return
        self._end_master()
        self._socket.unlink(missing_ok=True)
        self._folder.mkdir(exist_ok=True, mode=0o700)
        log = self._folder / "log"
        with log.open("wb") as errors:
            self._master = subprocess.Popen(
                (*self._ssh, "-N", "-M", "-S", str(self._socket), "-o", "ControlPersist=no",
                 "--", self._destination),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509  (only a system call)
            )  # fmt: skip
        self._wait_for_master(self._master, log)
        for key, port in self._forwards.items():
            self._forward(key, port)

    def _wait_for_master(self, master: subprocess.Popen[bytes], log: Path) -> None:
        give_up_s = time.monotonic() + _CONNECT_S
        while not self._socket.exists():
            if master.poll() is not None or time.monotonic() > give_up_s:
                said = log.read_text(errors="replace").strip().splitlines()
                self._end_master()
                raise HostUnreachable(
                    f"{self.name}: `ssh connects without asking` must hold, got: "
                    f"{said[-1] if said else 'no answer'}; try `ssh {shlex.quote(self._destination)} true`."
                )
            time.sleep(0.01)

    def _end_master(self) -> None:
        if self._master is not None:
            if self._master.poll() is None:
                self._master.send_signal(signal.SIGTERM)
            try:
                self._master.wait(5.0)
            except subprocess.TimeoutExpired:
                self._master.kill()
                self._master.wait()
            self._master = None

    def _direct(self, endpoint: Endpoint) -> Endpoint | None:
        """The host's own name and the port, when the server listens for others and is up now."""
        if endpoint.host in ("", "127.0.0.1", "localhost", "::1"):
            return None
        answer = run_words((*self._ssh, "-G", "--", self._destination), stdin="", timeout_s=10.0)
        named = [line.split(" ", 1)[1] for line in answer.stdout.splitlines() if line.startswith("hostname ")]
        is_wildcard = endpoint.host in ("0.0.0.0", "::")  # noqa: S104  (read, not bound)
        host = named[0] if named and is_wildcard else endpoint.host
        try:
            with socket.create_connection((host, endpoint.port), timeout=2.0):
                return Endpoint(host=host, port=endpoint.port, api_key=endpoint.api_key)
        except OSError:
            return None

    def _forward(self, key: tuple[str, int], port: int) -> None:
        answer = self._control("forward", "-L", _forward_words(key, port))
        if answer.status != 0:
            raise HostUnreachable(
                f"{self.name}: `a forward to port {key[1]}` must be allowed, got: {answer.complaint}; "
                "see AllowTcpForwarding in the host's sshd_config."
            )

    def _control(self, order: str, *words: str, socket_of: str = "") -> HostAnswer:
        via = () if socket_of == "user" else self._via()
        return run_words(
            (*self._ssh, *via, "-O", order, *words, "--", self._destination), stdin="", timeout_s=20.0
        )

    def _via(self) -> tuple[str, ...]:
        return () if self._is_users_master else ("-S", str(self._socket), "-o", "ControlMaster=no")


def check_destination(destination: str) -> None:
    """Raises ConfigError unless ssh would take it for a host's name, and only for that."""
    is_printable = destination.isprintable() and destination.isascii() and " " not in destination
    if (
        not destination
        or destination.startswith("-")
        or not is_printable
        or set(destination) & set("'\"`$;|&<>()\\")
    ):
        raise ConfigError(
            f"--ssh: `user@host or a name of your ssh config` must be given, got {destination!r}."
        )


def _forward_words(key: tuple[str, int], port: int) -> str:
    host = f"[{key[0]}]" if ":" in key[0] else key[0]
    return f"127.0.0.1:{port}:{host}:{key[1]}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
