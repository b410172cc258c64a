"""Stand-in units and small tuners for tests of how services are kept."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spectune.domain.command import HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.errors import ServerUnreachable
from spectune.launch.http_probe import fetch
from spectune.launch.journal import unfinished
from spectune.launch.unit_name import UnitName
from spectune.testing.recording import free_port
from spectune.testing.systemd_box import SystemdBox, standin_command


@dataclass(slots=True)
class StandIn:
    """A unit that runs a stand-in server."""

    box: SystemdBox
    name: str
    port: int = field(default_factory=free_port)

    def write(self, *, service: str = "Restart=always\nRestartSec=50ms", words: tuple[str, ...] = ()) -> None:
        """The unit file, with these lines in [Service] and these words behind ExecStart."""
        command = standin_command(self.port, *words)
        self.box.unit(self.name, f"[Service]\nExecStart={command}\n{service}\n")

    def up(self) -> list[str]:
        """Starts it; its arguments."""
        self.box.systemctl("start", self.name)
        return self.argv()

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint(host="127.0.0.1", port=self.port)

    def ask(self, within_s: float = 10.0) -> dict[str, object]:
        """Its answer."""
        give_up_s = time.monotonic() + within_s
        while True:
            try:
                found = json.loads(
                    fetch(self.endpoint, HttpRequest(method="GET", path="/"), timeout_s=2.0).body
                )
            except ServerUnreachable:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.02)
            else:
                assert isinstance(found, dict)
                return found

    def wait_up(self, within_s: float = 30.0) -> None:
        """Waits until something listens on its port."""
        give_up_s = time.monotonic() + within_s
        request = HttpRequest(method="GET", path="/metrics")
        while True:
            try:
                fetch(self.endpoint, request, timeout_s=2.0)
            except ServerUnreachable:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.05)
            else:
                return

    def argv(self) -> list[str]:
        """The arguments it runs with."""
        return [str(word) for word in self.ask()["argv"]]  # type: ignore[attr-defined]

    def traces(self) -> list[str]:
        """What of spectune is left on the host for this unit: must be nothing."""
        key = UnitName.parse(self.name).key
        paths = (f"/run/spectune/{key}", f"/run/spectune/{key}.lock", f"/run/systemd/system/{self.name}.d")
        left = [path for path in paths if self.box.path(path).exists()]
        watchdogs = self.box.systemctl("list-units", "--all", "--no-legend", f"spectune-watchdog-{key}*")
        left += watchdogs.split()[:1]
        for pid in self.box.processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if key in words:
                left.append(words[-200:])
        return left

    def wait_clean(self, within_s: float = 10.0) -> list[str]:
        """The traces, once there are none or time is over."""
        give_up_s = time.monotonic() + within_s
        while (left := self.traces()) and time.monotonic() < give_up_s:
            time.sleep(0.05)
        return left


class Driver:
    """A process that forks tuners."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spectune.testing.kill_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()

    def run(self, **words: object) -> dict[str, object]:
        """Does one job to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"id": 0, **words}) + "\n")
            self._process.stdin.flush()
            found = json.loads(self._process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def job(unit: StandIn, folder: Path, **words: object) -> dict[str, object]:
    """A job for the driver on this machine."""
    return {
        "folder": str(folder), "unit": unit.name, "port": unit.port, "prefix": " ".join(unit.box.prefix),
        "do": "tune", **words,
    }  # fmt: skip


def open_journals(folder: Path) -> list[str]:
    """Names of journals that are not closed."""
    return [path.name for path in unfinished(folder)]


def wait_until(condition: Callable[[], bool], *, within_s: float) -> bool:
    """Polls until it holds."""
    give_up_s = time.monotonic() + within_s
    while not condition() and time.monotonic() < give_up_s:
        time.sleep(0.05)
    return condition()


def processes_with(*words: str) -> list[int]:
    """Processes of this machine whose command line has all these words; what brings others in is left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if set(words) <= set(argv) and argv[0] != "nsenter":
                found.append(int(entry.name))
    return found
