"""A session on a container of the fake docker: what it asks of docker; the original always comes back."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.domain.endpoint import Endpoint
from spectune.errors import ConfigError, LaunchError
from spectune.launch.adoption import adopt
from spectune.launch.docker_session import DockerSession, new_docker_header, open_docker_session
from spectune.launch.host import HostAnswer
from spectune.launch.journal import Journal, unfinished
from spectune.launch.service_session import SessionTerms, finish_session
from spectune.testing.docker_rig import DockerRig
from spectune.testing.service_rig import wait_until

CLOCK = SystemClock()
SLEEP = ("/bin/sleep", "600")
ENDPOINT = Endpoint(host="127.0.0.1", port=1)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DockerRig]:
    found = DockerRig(tmp_path)
    yield found
    found.close()


def terms(timeout_s: float = 60.0) -> SessionTerms:
    return SessionTerms(
        kind="tune", study="s", ssh="", use_sudo=False, engine="embedded", before="",
        orphan_timeout_s=timeout_s, after_restore=("touch", "a b"),
    )  # fmt: skip


def opened(rig: DockerRig, folder: Path, timeout_s: float = 60.0) -> DockerSession:
    container = rig.service.container()
    journal = Journal.begin(folder / "journals", new_docker_header(rig.service, container, terms(timeout_s)))
    return open_docker_session(rig.service, container, journal, CLOCK)


def trial(session: DockerSession, folder: Path, name: str = "trial") -> None:
    """One server in the container's place, started and stopped."""
    launcher = session.launcher(folder / "logs")
    command = Command(argv=("/bin/sh", "-c", "echo hf_abc is up; exec sleep 500"))
    server = launcher.start(command, ENDPOINT, name=name, file_text="{}")
    assert server.exit_status() is None
    assert rig_pids(server.process_ids())
    server.stop()
    assert server.exit_status() is not None
    assert "**** is up" in server.log_text()


def rig_pids(pids: tuple[int, ...]) -> bool:
    return all(Path(f"/proc/{pid}").exists() for pid in pids) and len(pids) >= 1


def assert_as_before(rig: DockerRig, own: str) -> None:
    container = rig.service.container()
    assert container.id == own
    assert container.is_running
    assert not rig.service.has(rig.spare)
    assert not Path(rig.service.folder(rig.service.facts())).exists()


def test_the_original_waits_under_another_name_and_comes_back(rig: DockerRig, tmp_path: Path) -> None:
    own = rig.add(*SLEEP).id
    session = opened(rig, tmp_path)
    trial(session, tmp_path, "first")
    assert rig.service.container(rig.spare).id == own
    trial(session, tmp_path, "second")
    assert session.give_back(lambda: "proven") == "proven"
    assert_as_before(rig, own)
    assert unfinished(tmp_path / "journals") == ()
    assert [words[-1] for words in rig.calls("rm")] == [rig.name, rig.name]  # copies only, under the name
    assert rig.calls("rename") == [["rename", rig.name, rig.spare], ["rename", rig.spare, rig.name]]


def test_no_secret_is_among_the_words_of_any_command(rig: DockerRig, tmp_path: Path) -> None:
    rig.add(*SLEEP)
    session = opened(rig, tmp_path)
    trial(session, tmp_path)
    session.give_back(lambda: "")
    assert "hf_abc" not in (rig.folder / "calls").read_text("utf-8").replace("echo hf_abc", "")
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and rig.folder not in path.parents]
    assert not [path for path in kept if "hf_abc" in path.read_text(errors="replace")]


def test_a_container_that_does_not_run_is_given_back_not_running(rig: DockerRig, tmp_path: Path) -> None:
    own = rig.add(*SLEEP, is_running=False).id
    session = opened(rig, tmp_path)
    trial(session, tmp_path)
    session.give_back(lambda: "")
    container = rig.service.container()
    assert (container.id, container.is_running) == (own, False)


class Cut(BaseException):
    """The tuner is gone."""


class CutHost:
    """The rig's host until a script too many has run; then nothing more happens."""

    name, is_local = "this machine", True

    def __init__(self, rig: DockerRig, scripts: int) -> None:
        self._rig, self._left = rig, scripts

    def run(self, argv: tuple[str, ...], *, stdin: str = "", timeout_s: float = 60.0) -> HostAnswer:
        is_change = argv[:2] == ("/bin/sh", "-c") and "owns" in argv[2] and "put heartbeat" in argv[2]
        if is_change and self._left == 0:
            raise Cut
        answer = self._rig.host.run(argv, stdin=stdin, timeout_s=timeout_s)
        self._left -= is_change
        return answer

    def reach(self, endpoint: Endpoint) -> Endpoint:
        return endpoint

    def close(self) -> None:
        pass


@pytest.mark.parametrize("scripts", range(1, 11))
def test_cut_off_after_any_change_restore_gives_it_back(rig: DockerRig, tmp_path: Path, scripts: int) -> None:
    own = rig.add(*SLEEP).id
    rig.service.host = CutHost(rig, scripts)
    with suppress(Cut, LaunchError):
        session = opened(rig, tmp_path, timeout_s=300.0)  # so that no sign of life is among the changes
        try:
            trial(session, tmp_path)
            session.give_back(lambda: "")
        finally:
            session.lease.end_signs_of_life()
            session.lease.journal.release()
    rig.service.host = rig.host
    for path in unfinished(tmp_path / "journals"):
        journal = Journal.reopen(path)
        assert journal is not None
        assert finish_session(rig.host, journal, lambda: "proven", CLOCK) == "proven"
    assert_as_before(rig, own)
    assert unfinished(tmp_path / "journals") == ()


def test_a_silent_tuner_is_replaced_by_the_watchdog(rig: DockerRig, tmp_path: Path) -> None:
    own = rig.add(*SLEEP).id
    session = opened(rig, tmp_path, timeout_s=3.0)
    launcher = session.launcher(tmp_path / "logs")
    launcher.start(Command(argv=("/bin/sleep", "500")), ENDPOINT, name="trial")
    session.lease.end_signs_of_life()
    session.lease.journal.release()
    folder = Path(session.lease.header.folder)
    wait_until(lambda: not folder.exists(), within_s=60.0)
    assert_as_before(rig, own)
    (path,) = unfinished(tmp_path / "journals")
    journal = Journal.reopen(path)
    assert journal is not None
    assert finish_session(rig.host, journal, lambda: "proven", CLOCK) == "proven"


def test_two_sessions_on_a_container_are_refused(rig: DockerRig, tmp_path: Path) -> None:
    rig.add(*SLEEP)
    session = opened(rig, tmp_path / "first")
    with pytest.raises(ConfigError, match="one spectune at a time"):
        opened(rig, tmp_path / "second")
    trial(session, tmp_path)
    with pytest.raises(ConfigError, match="spectune restore"):
        opened(rig, tmp_path / "third")
    session.give_back(lambda: "")


def test_another_container_under_the_name_is_not_removed(rig: DockerRig, tmp_path: Path) -> None:
    rig.add(*SLEEP)
    session = opened(rig, tmp_path)
    trial(session, tmp_path)
    rig.host.run(("docker", "rm", "-f", "--", rig.name))
    stranger = rig.add("/bin/sleep", "77").id
    with pytest.raises(LaunchError, match="not this session's"):
        session.give_back(lambda: "")
    assert rig.service.container().id == stranger
    assert rig.service.has(rig.spare)
    rig.host.run(("docker", "rm", "-f", "--", rig.name))
    (path,) = unfinished(tmp_path / "journals")
    journal = Journal.reopen(path)
    assert journal is not None
    finish_session(rig.host, journal, lambda: "", CLOCK)


def test_a_host_without_a_daemon_is_told(rig: DockerRig) -> None:
    rig.folder.mkdir()
    (rig.folder / "no-daemon").touch()
    with pytest.raises(ConfigError, match="docker daemon"):
        rig.service.facts()
    with pytest.raises(ConfigError, match="a container named llm-"):
        rig.service.container()


def test_a_session_of_another_machine_is_adopted_once_its_tuner_is_gone(
    rig: DockerRig, tmp_path: Path
) -> None:
    own = rig.add(*SLEEP).id
    session = opened(rig, tmp_path, timeout_s=4.0)
    session.launcher(tmp_path / "logs").start(Command(argv=("/bin/sleep", "500")), ENDPOINT, name="trial")
    here = tmp_path / "here"
    with pytest.raises(ConfigError, match="the tuner is gone"):
        adopt(rig.service, here, ssh="", use_sudo=False)
    folder = Path(session.lease.header.folder)
    os.kill(int((folder / "watchdog.pid").read_text()), signal.SIGKILL)  # nobody else gives it back
    session.lease.end_signs_of_life()
    session.lease.journal.release()
    assert wait_until(lambda: is_adopted(rig, here), within_s=60.0)
    (path,) = unfinished(here)
    again = adopt(rig.service, here, ssh="", use_sudo=False)
    assert (again.path, again.dropped) == (path, ("touch", "a b"))
    journal = Journal.reopen(path)
    assert journal is not None
    assert journal.header.digest == session.lease.header.digest
    assert journal.header.after_restore == ()  # the host's word is never run here
    assert finish_session(rig.host, journal, lambda: "proven", CLOCK) == "proven"
    assert_as_before(rig, own)
    with pytest.raises(ConfigError, match="there is none"):
        adopt(rig.service, here, ssh="", use_sudo=False)


@pytest.mark.parametrize("name", ["../../evil", "20260101-000000-../x", 7])
def test_a_hostile_header_makes_no_file_here(rig: DockerRig, tmp_path: Path, name: str | int) -> None:
    rig.add(*SLEEP)
    session = opened(rig, tmp_path)
    kept = Path(session.lease.header.folder) / "header"
    text = kept.read_text("utf-8")
    kept.write_text(json.dumps(json.loads(text) | {"id": name}) + "\n", encoding="utf-8")
    here = tmp_path / "a" / "b" / "here"
    with pytest.raises(ConfigError, match="id is"):
        adopt(rig.service, here, ssh="", use_sudo=False)
    assert not list(tmp_path.rglob("*evil*"))
    assert not here.exists()
    kept.write_text(text, encoding="utf-8")
    session.give_back(lambda: "")


def is_adopted(rig: DockerRig, here: Path) -> bool:
    with suppress(ConfigError):
        adopt(rig.service, here, ssh="", use_sudo=False)
    return bool(unfinished(here))
