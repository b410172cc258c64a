"""SIGKILL at every moment of a session. Afterwards the service is as it was and nothing of us is left.

The moments are those that a session really has: after every line of the journal and after every command
that changes the host, counted in a run that is left alone.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spectune.testing.service_rig import Driver, StandIn, job, open_journals, processes_with, wait_until
from spectune.testing.ssh_box import SshBox
from spectune.testing.systemd_box import SystemdBox

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(300)]
NUM_WORKERS = 3
BASE = ("--base", '"two words"')
Moment = tuple[int, str]


class Worker:
    """A unit and a driver of its own."""

    def __init__(self, box: SystemdBox, folder: Path, number: int) -> None:
        self.unit = StandIn(box, f"matrix-{number}.service")
        self.unit.write(words=BASE)
        self.base = self.unit.up()
        self.driver, self.folder = Driver(), folder / str(number)

    def at(self, name: str, moment: Moment) -> Path:
        return self.folder / f"{name}-{moment[0]:02d}"

    def problems(self, folder: Path, moment: Moment, *, measured: int) -> list[str]:
        """What is not as it must be, in words."""
        found = [f"left: {trace}" for trace in self.unit.wait_clean()]
        found += [f"unfinished: {name}" for name in open_journals(folder)]
        if (now := self.unit.argv()) != self.base:
            found.append(f"runs {now}")
        if self.unit.box.show(self.unit.name, "DropInPaths"):
            found.append("a drop-in")
        if self.unit.box.show(self.unit.name, "NeedDaemonReload") != "no":
            found.append("daemon-reload is needed")
        kept = folder / "measured"
        lines = len(kept.read_text().splitlines()) if kept.exists() else 0
        if lines < measured:
            found.append(f"{lines} of {measured} measured levels kept")
        return [f"{moment[0]} {moment[1]}: {problem}" for problem in found]


@pytest.fixture(scope="module")
def workers(box: SystemdBox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    folder = tmp_path_factory.mktemp("matrix")
    made = [Worker(box, folder, number) for number in range(NUM_WORKERS)]
    yield made
    for worker in made:
        worker.driver.close()


@pytest.fixture(scope="module")
def moments(workers: list[Worker]) -> list[Moment]:
    """Of a session with two trials that is left alone."""
    worker = workers[0]
    ran = worker.driver.run(**job(worker.unit, worker.folder / "alone", trials=2))
    assert ran["error"] == ""
    assert worker.problems(worker.folder / "alone", (0, "alone"), measured=2) == []
    names = ran["moments"]
    assert isinstance(names, list)
    return list(enumerate(names))


def over_all(
    moments: list[Moment], workers: list[Worker], check: Callable[[Worker, Moment], list[str]]
) -> list[str]:
    """Problems of all moments, several at a time."""
    free = list(workers)

    def one(moment: Moment) -> list[str]:
        worker = free.pop()
        try:
            return check(worker, moment)
        finally:
            free.append(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        return [problem for found in pool.map(one, moments) for problem in found]


def measured_before(moments: list[Moment], moment: Moment) -> int:
    return sum(name.startswith("measured") for at, name in moments if at <= moment[0])


def test_there_are_enough_moments(moments: list[Moment]) -> None:
    assert len(moments) >= 25
    names = {name for _, name in moments}
    for step in ("lease", "watchdog", "stop", "drop-in", "file", "reload", "start", "undo", "finish"):
        assert {f"journal {step}?", f"journal {step}"} <= names


def test_a_killed_tuner_is_finished_by_restore(moments: list[Moment], workers: list[Worker]) -> None:
    def check(worker: Worker, moment: Moment) -> list[str]:
        folder = worker.at("restored", moment)
        words = job(worker.unit, folder, trials=2, timeout_s=30)
        killed = worker.driver.run(**words, act_at=moment[0])
        restored = worker.driver.run(**{**words, "do": "restore"})
        told = [] if restored["error"] == "" else [f"{moment}: {restored['error']}"]
        told += [] if killed["signal"] == 9 else [f"{moment}: not killed"]
        return told + worker.problems(folder, moment, measured=measured_before(moments, moment))

    assert over_all(moments, workers, check) == []


def test_a_killed_tuner_is_finished_by_the_watchdog(moments: list[Moment], workers: list[Worker]) -> None:
    """`restore` only closes the journal afterwards, and proves; it is not what brings the service back."""

    def check(worker: Worker, moment: Moment) -> list[str]:
        folder = worker.at("watched", moment)
        words = job(worker.unit, folder, timeout_s=1.2)
        worker.driver.run(**words, act_at=moment[0])
        has_watchdog = moment[0] >= [name for _, name in moments].index("changed watch")
        by_itself = worker.unit.wait_clean() if has_watchdog else []
        told = [f"{moment}: without restore: {trace}" for trace in by_itself]
        restored = worker.driver.run(**{**words, "do": "restore"})
        told += [] if restored["error"] == "" else [f"{moment}: {restored['error']}"]
        return told + worker.problems(folder, moment, measured=measured_before(one_trial(moments), moment))

    assert over_all(after_changes(moments), workers, check) == []


def test_a_killed_engine_does_not_end_the_session(moments: list[Moment], workers: list[Worker]) -> None:
    def check(worker: Worker, moment: Moment) -> list[str]:
        folder = worker.at("engine", moment)
        ran = worker.driver.run(**job(worker.unit, folder), act="kill-engine", act_at=moment[0])
        told = [] if ran["error"] == "" else [f"{moment}: {ran['error']}"]
        return told + worker.problems(folder, moment, measured=0)

    assert over_all(one_trial(moments), workers, check) == []


def test_a_killed_connection_is_made_again(
    moments: list[Moment], workers: list[Worker], box: SystemdBox, tmp_path: Path
) -> None:
    servers = {worker.unit.name: SshBox(tmp_path / worker.unit.name, box.prefix) for worker in workers}

    def check(worker: Worker, moment: Moment) -> list[str]:
        folder, sshd = worker.at("cut", moment), servers[worker.unit.name]
        words = job(worker.unit, folder, ssh_config=str(sshd.config), sshd=sshd.process.pid, timeout_s=10)
        ran = worker.driver.run(**words, act="cut-ssh", act_at=moment[0])
        told = [] if ran["error"] == "" else [f"{moment}: {ran['error']}"]
        return told + worker.problems(folder, moment, measured=0)

    try:
        assert over_all(one_trial(moments), workers, check) == []
    finally:
        for server in servers.values():
            server.stop()


def test_a_tuner_killed_over_ssh_leaves_no_connection(
    moments: list[Moment], workers: list[Worker], box: SystemdBox, tmp_path: Path
) -> None:
    worker, sshd = workers[0], SshBox(tmp_path / "sshd", box.prefix)
    try:
        moment = next(moment for moment in moments if moment[1] == "measured 0")
        folder = worker.at("killed-ssh", moment)
        words = job(worker.unit, folder, ssh_config=str(sshd.config), sshd=sshd.process.pid, timeout_s=1.2)
        assert worker.driver.run(**words, act_at=moment[0])["signal"] == 9
        assert wait_until(lambda: not sshd.sessions(), within_s=5)
        assert processes_with("-F", str(sshd.config)) == []
        assert worker.unit.wait_clean() == []
        assert worker.driver.run(**{**words, "do": "restore"})["error"] == ""
        assert worker.problems(folder, moment, measured=1) == []
    finally:
        sshd.stop()


def test_a_connection_that_stays_down_is_finished_by_the_watchdog(
    moments: list[Moment], workers: list[Worker], box: SystemdBox, tmp_path: Path
) -> None:
    servers = {worker.unit.name: SshBox(tmp_path / worker.unit.name, box.prefix) for worker in workers}

    def check(worker: Worker, moment: Moment) -> list[str]:
        folder, sshd = worker.at("down", moment), servers[worker.unit.name]
        words = job(worker.unit, folder, ssh_config=str(sshd.config), sshd=sshd.process.pid, timeout_s=1.2)
        worker.driver.run(**words, act="ssh-down", act_at=moment[0])
        has_watchdog = moment[0] >= [name for _, name in moments].index("changed watch")
        by_itself = worker.unit.wait_clean() if has_watchdog else []
        told = [f"{moment}: without restore: {trace}" for trace in by_itself]
        sshd.process.wait(10)
        sshd.start()
        restored = worker.driver.run(**{**words, "do": "restore"})
        told += [] if restored["error"] == "" else [f"{moment}: {restored['error']}"]
        return told + worker.problems(folder, moment, measured=0)

    try:
        assert over_all(after_changes(moments), workers, check) == []
    finally:
        for server in servers.values():
            server.stop()


def one_trial(moments: list[Moment]) -> list[Moment]:
    """Of a session with one trial: before and after every change; the second trial's are left out."""
    names = [name for _, name in moments]
    second, end = names.index("journal drop-in?", names.index("measured 0")), names.index("journal undo?")
    return around_changes([*names[:second], *names[end:]])


def after_changes(moments: list[Moment]) -> list[Moment]:
    """The journal's first line and the moment after every change: one for each state a host can be in."""
    return [moment for moment in one_trial(moments) if not moment[1].endswith("?")]


def around_changes(names: list[str]) -> list[Moment]:
    """Moments without those that differ from the one before only by the line that says "done"."""
    steps = {name.removesuffix("?") for name in names if name.endswith("?")}
    return [(place, name) for place, name in enumerate(names) if name not in steps]


@pytest.mark.parametrize("finisher", ["restore", "watchdog"])
def test_a_killed_apply_is_as_before_or_as_applied(workers: list[Worker], finisher: str) -> None:
    """Never between the two: the drop-in, what runs, and what a restart would run always agree."""
    first = workers[0]
    alone = first.driver.run(**job(first.unit, first.folder / f"apply-{finisher}", do="apply"))
    assert alone["error"] == ""
    assert first.unit.argv() == [*first.base, "--applied"]
    take_away(first)
    names = alone["moments"]
    assert isinstance(names, list)
    applied: list[bool] = []

    def check(worker: Worker, moment: Moment) -> list[str]:
        folder = worker.at(f"apply-{finisher}", moment)
        words = job(worker.unit, folder, do="apply", timeout_s=1.2 if finisher == "watchdog" else 30)
        worker.driver.run(**words, act_at=moment[0])
        told = []
        if finisher == "watchdog" and moment[0] >= names.index("changed watch"):
            told += [f"{moment}: without restore: {trace}" for trace in worker.unit.wait_clean()]
        restored = worker.driver.run(**{**words, "do": "restore"})
        told += [] if restored["error"] == "" else [f"{moment}: {restored['error']}"]
        told += [f"{moment}: unfinished: {name}" for name in open_journals(folder)]
        told += [f"{moment}: left {trace}" for trace in worker.unit.wait_clean()]
        is_applied = worker.unit.argv() == [*worker.base, "--applied"]
        applied.append(is_applied)
        told += [] if is_applied or worker.unit.argv() == worker.base else [f"{moment}: {worker.unit.argv()}"]
        worker.unit.box.systemctl("restart", worker.unit.name)
        runs_applied = worker.unit.argv() == [*worker.base, "--applied"]
        told += [] if runs_applied == is_applied else [f"{moment}: a restart runs something else"]
        take_away(worker)
        return told

    assert over_all(around_changes(names), workers, check) == []
    assert set(applied) == {False, True}


def take_away(worker: Worker) -> None:
    """Ends with the unit as it was written."""
    folder = worker.unit.box.etc / f"{worker.unit.name}.d"
    for path in folder.glob("*"):
        path.unlink()
    if folder.exists():
        folder.rmdir()
    worker.unit.box.systemctl("daemon-reload")
    worker.unit.box.systemctl("restart", worker.unit.name)
