"""Words, forwards and reconnects through a real sshd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, HostUnreachable
from spectune.launch.ssh_host import SshHost, check_destination
from spectune.testing.recording import free_port
from spectune.testing.service_rig import StandIn, wait_until
from spectune.testing.ssh_box import HOST, SshBox
from spectune.testing.systemd_box import SystemdBox

pytestmark = pytest.mark.needs_root
HOSTILE = ("a b", "a;touch /tmp/x", "$(false)", "`x`", "'", '"', "a\nb", "--", "*", "", "~", "\\", "é")


@pytest.fixture
def host(sshd: SshBox) -> Iterator[SshHost]:
    one = SshHost(HOST, config=str(sshd.config))
    yield one
    one.close()


def test_words_and_input_arrive_as_they_are(host: SshHost) -> None:
    answer = host.run(("/bin/sh", "-c", "printf '%s\\n' \"$@\"; cat; exit 7", "sh", *HOSTILE), stdin="in\n")
    assert answer.stdout == "".join(f"{word}\n" for word in HOSTILE) + "in\n"
    assert answer.status == 7


def test_a_forward_outlives_its_connection(host: SshHost, sshd: SshBox, box: SystemdBox) -> None:
    unit = StandIn(box, f"forwarded-{free_port()}.service")
    unit.write()
    unit.up()
    reached = host.reach(unit.endpoint)
    assert reached.port != unit.port
    assert host.reach(unit.endpoint) == reached
    there = StandIn(box, unit.name, port=reached.port)
    assert there.argv() == unit.argv()
    sshd.cut()
    assert wait_until(lambda: not sshd.sessions(), within_s=5)
    assert host.run(("true",)).status == 0
    assert there.argv() == unit.argv()
    box.systemctl("stop", unit.name)
    (box.etc / unit.name).unlink()


def test_a_host_that_is_not_there_is_told_with_what_to_try(sshd: SshBox, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(sshd.config.read_text().replace(f"Port {sshd.port}", f"Port {free_port()}"))
    nobody = SshHost(HOST, config=str(config))
    began_s = SystemClock().monotonic_s()
    with pytest.raises(HostUnreachable, match="try `ssh gpu1 true`"):
        nobody.run(("true",))
    assert SystemClock().monotonic_s() - began_s < 10
    with pytest.raises(HostUnreachable):
        nobody.reach(Endpoint(host="127.0.0.1", port=1))
    nobody.close()


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "a b", "a;b", "$(x)", "`x`", "a\nb", "a'b", "é"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--ssh"):
        check_destination(text)
