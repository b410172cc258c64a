"""Words, forwards and reconnects through a real sshd."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, HostUnreachable
from spectune.launch.journal import Journal
from spectune.launch.service_session import SessionTerms, new_header, open_session
from spectune.launch.ssh_host import SshHost, check_destination
from spectune.launch.systemd_service import SystemdService
from spectune.launch.unit_name import UnitName
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


def test_a_host_behind_another_one_is_reached_through_it(
    box: SystemdBox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jump = SshBox(tmp_path_factory.mktemp("jump"))
    far = SshBox(tmp_path_factory.mktemp("far"), box.prefix, behind=jump)
    unit = StandIn(box, f"behind-{free_port()}.service")
    unit.write()
    unit.up()
    host = SshHost(HOST, config=str(far.config))
    try:
        assert "sdbox" in host.run(("cat", "/proc/1/environ")).stdout
        assert jump.sessions()
        assert StandIn(box, unit.name, port=host.reach(unit.endpoint).port).argv() == unit.argv()
        jump.down()
        assert wait_until(lambda: not far.sessions(), within_s=20)
        jump.start()
        assert host.run(("true",)).status == 0
    finally:
        host.close()
        far.stop()
        jump.stop()
        box.systemctl("stop", unit.name)
        (box.etc / unit.name).unlink()


@pytest.fixture
def plain_login(box: SystemdBox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBox]:
    """An sshd whose logins are not root's but may use sudo."""
    if shutil.which("sudo") is None:
        pytest.skip("needs Debian package sudo")
    server = SshBox(tmp_path_factory.mktemp("plain"), box.as_user("nobody"))
    yield server
    server.stop()
    box.run("umount", "/etc/sudoers")


def test_a_login_that_is_not_root_needs_sudo_and_has_enough_of_it(
    plain_login: SshBox, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    unit = stand_in()
    before = unit.up()
    bare = SshHost(HOST, config=str(plain_login.config))
    with pytest.raises(ConfigError, match="give --sudo"):
        SystemdService(bare, UnitName.parse(unit.name)).facts()
    assert bare.run(("id", "-un")).stdout == "nobody\n"
    bare.close()
    host = SshHost(HOST, use_sudo=True, config=str(plain_login.config))
    service = SystemdService(host, UnitName.parse(unit.name))
    assert service.facts().uid == 0
    found = service.unit()
    terms = SessionTerms(
        kind="tune", study="s", ssh=HOST, use_sudo=True, engine="stand-in", before="", orphan_timeout_s=60.0
    )
    journal = Journal.begin(tmp_path / "journals", new_header(service, found, terms))
    session = open_session(service, found, journal, SystemClock())
    changed = replace(found.command, argv=(*found.command.argv, "--trial", "a b"))
    server = session.launcher(tmp_path / "logs").start(changed, unit.endpoint, name="trial")
    assert unit.argv()[-2:] == ["--trial", "a b"]
    server.stop()
    session.give_back(lambda: "")
    assert unit.argv() == before
    assert unit.wait_clean() == []
    host.close()


def test_a_killed_tuner_leaves_no_folder_of_its_connection(sshd: SshBox) -> None:
    script = (
        "import sys, time\n"
        "from spectune.launch.ssh_host import SshHost\n"
        "host = SshHost(sys.argv[1], config=sys.argv[2])\n"
        "host.run(('true',))\n"
        "print(host._folder, flush=True)\n"
        "time.sleep(100)\n"
    )
    tuner = subprocess.Popen(
        [sys.executable, "-c", script, HOST, str(sshd.config)], stdout=subprocess.PIPE, text=True
    )
    assert tuner.stdout is not None
    folder = Path(tuner.stdout.readline().strip())
    assert (folder / "s").exists()
    tuner.kill()
    tuner.wait()
    tuner.stdout.close()
    assert wait_until(lambda: not folder.exists(), within_s=20)


def test_a_closed_host_leaves_no_folder_either(sshd: SshBox) -> None:
    host = SshHost(HOST, config=str(sshd.config))
    host.run(("true",))
    folder = host._folder
    host.close()
    host.close()
    assert not folder.exists()
