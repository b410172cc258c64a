"""`apply --schedule`: on the real embedded engine as a unit, and the file that some engines read it from."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, Failed
from spectune.errors import ConfigError
from spectune.launch.local_host import LocalHost
from spectune.launch.persistent import change_to, credential_path
from spectune.launch.systemd_service import SystemdService
from spectune.launch.unit_name import UnitName
from spectune.storage.sqlite_store import SqliteStore
from spectune.testing.proved_study import SCHEDULE, proved_study
from spectune.testing.recording import free_port
from spectune.testing.service_rig import StandIn
from spectune.testing.systemd_box import SystemdBox

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(300)]
FILE = '{"1": {"candidate_steps": [3]}, "5": {"candidate_steps": [0]}}'


def keep(history: StudyHistory, store: SqliteStore) -> None:
    with store.writing(history.study) as writer:
        writer.add_plans(history.plans)
        for outcome in history.outcomes:
            writer.add_launch(outcome.trial)
            if isinstance(outcome, Completed):
                writer.add_ready(outcome.trial, outcome.effective, outcome.launch_s)
            for level in outcome.levels if isinstance(outcome, Completed | Failed) else ():
                writer.add_level(outcome.trial, level)
            writer.add_outcome(outcome)
        writer.finish(history.finished)


@pytest.fixture
def served(box: SystemdBox) -> Iterator[StandIn]:
    """The embedded engine as a unit, two fixed steps."""
    unit = StandIn(box, f"embedded-{free_port()}.service")
    command = f"{sys.executable} -m spectune serve --port {unit.port} --speculative-algorithm EAGLE"
    box.unit(unit.name, f"[Service]\nRestart=always\nExecStart={command} --speculative-num-steps 2\n")
    box.systemctl("start", unit.name)
    unit.wait_up()
    yield unit
    box.systemctl("stop", unit.name)


def apply(unit: StandIn, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state"),
    }  # fmt: skip
    return subprocess.run(
        [*unit.box.prefix, sys.executable, "-m", "spectune", "apply", "last", "--store", str(folder / "s.db"),
         "--unit", unit.name, "--yes", "--quiet-for", "0.3s", *words],
        env=environment, cwd=folder, text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL,
        timeout=200,
    )  # fmt: skip


def words_of(unit: StandIn) -> str:
    pid = unit.box.show(unit.name, "MainPID")
    return unit.box.path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def test_a_recommended_schedule_is_put_in_place_proven_and_taken_back(
    served: StandIn, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "s.db", SystemClock(), "0.1.0")
    keep(proved_study(), store)
    before = words_of(served)
    applied = apply(served, tmp_path, "--schedule")
    assert applied.returncode == 0, applied.stderr
    assert f"--speculative-schedule {SCHEDULE.label}" in applied.stdout
    assert "+ExecStart=" in applied.stdout
    assert f"applied: a real generation, and in force: eagle 3, schedule {SCHEDULE.label}" in applied.stdout
    assert f"--speculative-schedule {SCHEDULE.label}" in words_of(served)
    undone = apply(served, tmp_path, "--undo")
    assert undone.returncode == 0, undone.stderr
    assert words_of(served) == before
    assert apply(served, tmp_path, "--schedule").returncode == 0
    again = apply(served, tmp_path)
    assert again.returncode == 0, again.stderr
    assert "in force: eagle 1," in again.stdout
    assert "--speculative-schedule" not in words_of(served)
    both = apply(served, tmp_path, "--undo", "--schedule")
    assert (both.returncode, "--schedule or --undo" in both.stderr) == (2, True)


def test_a_schedule_that_is_not_recommended_changes_nothing(served: StandIn, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", SystemClock(), "0.1.0")
    keep(proved_study(schedule={1: 90.0, 4: 300.0, 16: 700.0, 32: 900.0}), store)
    before = words_of(served)
    refused = apply(served, tmp_path, "--schedule")
    assert refused.returncode == 2
    assert "its schedule is recommended" in refused.stderr
    assert words_of(served) == before


def test_the_file_of_a_schedule_comes_and_goes_with_the_drop_in(box: SystemdBox) -> None:
    name = UnitName.parse(f"reader-{free_port()}")
    host = LocalHost(prefix=box.prefix)
    service = SystemdService(host, name)
    box.unit(name.full, "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")
    alias = UnitName.parse(f"{name.stem}-alias")
    (box.etc / alias.full).symlink_to(name.full)
    box.systemctl("daemon-reload")
    path = credential_path(SystemdService(host, alias).unit())
    assert name.full in path
    seen = box.folder / f"{name.stem}.seen"
    change = change_to(service, f"/bin/sh -c 'cat {path} >{seen}'", FILE)
    drop_in = box.etc / f"{name.full}.d" / "zy-spectune.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(change.after)
    box.systemctl("daemon-reload")
    box.run("mount", "--make-rshared", "/")  # as a booted machine has it, and credentials need it
    box.systemctl("restart", name.full)
    box.run("mount", "--make-rprivate", "/")
    assert json.loads(seen.read_text()) == json.loads(FILE)
    with pytest.raises(ConfigError, match="it is a user's"):
        change_to(SystemdService(host, name, is_user=True), "/bin/true", FILE)
