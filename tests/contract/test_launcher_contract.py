"""What every launcher must keep, against a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.command import HttpRequest
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import PortInUse, ServerUnreachable
from spectune.launch.docker_launcher import DockerLauncher
from spectune.launch.docker_session import new_docker_header, open_docker_session
from spectune.launch.host import Host
from spectune.launch.http_probe import fetch
from spectune.launch.journal import Journal
from spectune.launch.launcher import Launcher
from spectune.launch.local_host import LocalHost
from spectune.launch.readiness import wait_until_ready
from spectune.launch.service_session import SessionTerms, new_header, open_session
from spectune.launch.subprocess_launcher import SubprocessLauncher
from spectune.launch.systemd_service import SystemdService
from spectune.launch.unit_name import UnitName
from spectune.testing import systemd_box
from spectune.testing.docker_rig import DockerRig
from spectune.testing.simulation import simulated_command
from spectune.testing.systemd_box import SystemdBox
from spectune.tuning.bench import generation_probe

CLOCK = SystemClock()
ADAPTER = EmbeddedAdapter()
HEALTH = HttpRequest(method="GET", path="/health")


Setting = tuple[Launcher, Host]
"""A launcher and the machine its servers run on."""


@pytest.fixture(params=["subprocess", "docker", pytest.param("systemd", marks=pytest.mark.needs_root)])
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setting]:
    if request.param == "subprocess":
        yield SubprocessLauncher(tmp_path, CLOCK, drain_s=1.0), LocalHost()
        return
    if request.param == "docker":
        yield from in_place_of_a_container(DockerRig(tmp_path / "rig"), tmp_path)
        return
    if reason := systemd_box.obstacle():
        pytest.skip(reason)
    with SystemdBox(tmp_path / "box") as box:
        yield from on_a_unit(box, tmp_path)


def in_place_of_a_container(rig: DockerRig, folder: Path) -> Iterator[Setting]:
    """A launcher in the place of a container of the fake docker."""
    container = rig.add("/bin/sleep", "600")
    terms = SessionTerms(
        kind="tune", study="s", ssh="", use_sudo=False, engine="embedded", before="", orphan_timeout_s=60.0
    )
    header = new_docker_header(rig.service, container, terms)
    session = open_docker_session(rig.service, container, Journal.begin(folder / "journals", header), CLOCK)
    yield session.launcher(folder / "logs"), rig.host
    session.give_back(lambda: "")
    assert rig.service.container().id == container.id
    rig.close()


@pytest.fixture
def launcher(setting: Setting) -> Launcher:
    return setting[0]


def on_a_unit(box: SystemdBox, folder: Path) -> Iterator[Setting]:
    """A launcher on a unit that runs something else now."""
    box.unit("llm.service", "[Service]\nTimeoutStopSec=1s\nExecStart=/bin/sleep 600\n")
    box.systemctl("start", "llm.service")
    service = SystemdService(LocalHost(prefix=box.prefix), UnitName.parse("llm"))
    unit = service.unit()
    terms = SessionTerms(
        kind="tune", study="s", ssh="", use_sudo=False, engine="embedded", before="", orphan_timeout_s=60.0
    )
    journal = Journal.begin(folder / "journals", new_header(service, unit, terms))
    session = open_session(service, unit, journal, CLOCK)
    yield session.launcher(folder / "logs"), service.host
    session.give_back(lambda: "")
    assert service.host.run(("ls", service.places(service.facts()).runtime)).status != 0
    assert "sleep" in box.systemctl("status", "llm.service")


def test_a_server_lives_from_start_to_stop_and_frees_its_port(launcher: Launcher) -> None:
    command = simulated_command("--sim-fault", "leave-child")
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


def test_a_file_is_there_for_the_server_and_readable(setting: Setting) -> None:
    launcher, host = setting
    name = launcher.file_for("filed")
    command = simulated_command()
    server = launcher.start(command, ADAPTER.endpoint(command), name="filed", file_text='{"1": 3}')
    try:
        wait_until_ready(server, generation_probe(ADAPTER), deadline_s=20, clock=SystemClock())
        if isinstance(launcher, DockerLauncher):  # the fake keeps what is copied into a container
            name = host.run(("sh", "-c", 'ls "$FAKE_DOCKER"/*"$(basename "$1")"', "sh", name)).stdout.strip()
        assert host.run(("cat", "--", name)).stdout == '{"1": 3}'
        assert int(host.run(("stat", "-c", "%a", "--", name)).stdout, 8) & 0o004
    finally:
        server.stop()


def test_two_servers_on_one_port_are_refused(launcher: Launcher) -> None:
    command = simulated_command()
    server = launcher.start(command, ADAPTER.endpoint(command), name="first")
    try:
        wait_until_ready(server, generation_probe(ADAPTER), deadline_s=20, clock=SystemClock())
        with pytest.raises(PortInUse):
            launcher.start(command, ADAPTER.endpoint(command), name="second")
        assert fetch(server.endpoint, HEALTH, timeout_s=2).status == 200
    finally:
        server.stop()
