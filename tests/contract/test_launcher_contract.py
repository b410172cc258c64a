"""What every launcher must keep, against a real server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.command import HttpRequest
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import PortInUse, ServerUnreachable
from spectune.launch.http_probe import fetch
from spectune.launch.launcher import Launcher
from spectune.launch.readiness import wait_until_ready
from spectune.launch.subprocess_launcher import SubprocessLauncher
from spectune.testing.simulation import simulated_command
from spectune.tuning.bench import generation_probe

MakeLauncher = Callable[[Path], Launcher]
every_launcher = pytest.mark.parametrize(
    "make", [lambda folder: SubprocessLauncher(folder, SystemClock(), drain_s=1.0)], ids=["subprocess"]
)
ADAPTER = EmbeddedAdapter()
HEALTH = HttpRequest(method="GET", path="/health")


@every_launcher
def test_a_server_lives_from_start_to_stop_and_frees_its_port(make: MakeLauncher, tmp_path: Path) -> None:
    launcher, command = make(tmp_path), simulated_command("--sim-fault", "leave-child")
    for name in ("first", "second"):  # the same port again
        server = launcher.start(command, ADAPTER.endpoint(command), name=name)
        try:
            wait_until_ready(server, generation_probe(ADAPTER), deadline_s=20, clock=SystemClock())
            assert server.exit_status() is None
            assert len(server.process_ids()) >= 2
            assert "simulated server is up" in server.log_text()
            assert Path(server.log_path).exists()
        finally:
            server.stop()
        assert server.exit_status() is not None
        with pytest.raises(ServerUnreachable):
            fetch(server.endpoint, HEALTH, timeout_s=2)


@every_launcher
def test_two_servers_on_one_port_are_refused(make: MakeLauncher, tmp_path: Path) -> None:
    launcher, command = make(tmp_path), simulated_command()
    server = launcher.start(command, ADAPTER.endpoint(command), name="first")
    try:
        wait_until_ready(server, generation_probe(ADAPTER), deadline_s=20, clock=SystemClock())
        with pytest.raises(PortInUse):
            launcher.start(command, ADAPTER.endpoint(command), name="second")
        assert fetch(server.endpoint, HEALTH, timeout_s=2).status == 200
    finally:
        server.stop()
