"""One real systemd for all tests of this folder, and an sshd into it."""

from collections.abc import Callable, Iterator

import pytest

from spectune.testing import ssh_box, systemd_box
from spectune.testing.recording import free_port
from spectune.testing.service_rig import Driver, StandIn
from spectune.testing.ssh_box import SshBox
from spectune.testing.systemd_box import SystemdBox


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdBox]:
    if reason := systemd_box.obstacle():
        pytest.skip(reason)
    with SystemdBox(tmp_path_factory.mktemp("box")) as booted:
        yield booted


@pytest.fixture(scope="session")
def sshd(box: SystemdBox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBox]:
    if reason := ssh_box.obstacle():
        pytest.skip(reason)
    server = SshBox(tmp_path_factory.mktemp("ssh"), box.prefix)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    one = Driver()
    yield one
    one.close()


@pytest.fixture
def stand_in(box: SystemdBox) -> Iterator[Callable[..., StandIn]]:
    """Makes stand-in units that are removed after the test."""
    made: list[StandIn] = []

    def make(name: str = "", **options: object) -> StandIn:
        unit = StandIn(box, name or f"llm-{free_port()}.service")
        unit.write(**options)  # type: ignore[arg-type]
        made.append(unit)
        return unit

    yield make
    for unit in made:
        box.systemctl("stop", unit.name, check=False)
        (box.etc / unit.name).unlink(missing_ok=True)
