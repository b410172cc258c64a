"""The embedded engine as a service: killed at three points of a study, with everything measured kept."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from spectune.testing.recording import free_port
from spectune.testing.service_rig import StandIn, processes_with
from spectune.testing.ssh_box import HOST, SshBox
from spectune.testing.systemd_box import SystemdBox

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(300)]


@dataclass(slots=True)
class Study:
    """A study of the embedded engine as a unit."""

    unit: StandIn
    folder: Path
    ssh_config: str = ""

    def start(self, *words: str) -> subprocess.Popen[str]:
        inside: list[str] = [] if self.ssh_config else list(self.unit.box.prefix)
        shim = self.folder / "bin"
        if self.ssh_config:
            shim.mkdir(exist_ok=True)
            (shim / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F "{self.ssh_config}" "$@"\n')
            (shim / "ssh").chmod(0o755)
        environment = {
            **os.environ, "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"), "PATH": f"{shim}:{os.environ['PATH']}",
        }  # fmt: skip
        return subprocess.Popen(
            [*inside, sys.executable, "-m", "spectune", *words], env=environment, text=True, cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def tune(self, *words: str) -> subprocess.Popen[str]:
        place = ["--ssh", HOST] if self.ssh_config else []
        return self.start("tune", "--unit", self.unit.name, *place, "--yes", "--quiet-for", "0.3s", *words)

    def question(self) -> list[str]:
        prompts = self.folder / "prompts.jsonl"
        lines = ({"prompt": f"def f{i}(x):\n", "max_tokens": 8, "temperature": 0} for i in range(200))
        prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return [
            "--workload",
            str(prompts),
            "--num-steps",
            "2",
            "--concurrency",
            "1",
            "--budget",
            "1",
            "--confirm",
            "0",
        ]

    def steps(self) -> list[str]:
        """Of the newest journal."""
        paths = sorted((self.folder / "state" / "spectune" / "journals").glob("*.journal"))
        text = paths[-1].read_text() if paths else ""
        lines = (json.loads(line) for line in text.splitlines() if line.startswith('{"step"'))
        return [line["step"] for line in lines]

    def num_levels(self) -> int:
        with closing(sqlite3.connect(self.folder / "data" / "spectune" / "studies.db")) as store:
            return int(store.execute("SELECT count(*) FROM level").fetchone()[0])

    def words(self) -> list[str]:
        pid = self.unit.box.show(self.unit.name, "MainPID")
        return self.unit.box.path(f"/proc/{pid}/cmdline").read_text().split("\0")


@pytest.fixture
def study(box: SystemdBox, tmp_path: Path) -> Iterator[Study]:
    unit = StandIn(box, f"embedded-{free_port()}.service")
    command = f"{sys.executable} -m spectune serve --port {unit.port} --speculative-algorithm EAGLE"
    box.unit(unit.name, f"[Service]\nRestart=always\nExecStart={command} --speculative-num-steps 2\n")
    box.systemctl("start", unit.name)
    unit.wait_up()
    yield Study(unit, tmp_path)
    box.systemctl("stop", unit.name)


@pytest.mark.parametrize(("step", "count"), [("start", 1), ("stop?", 2), ("undo?", 1)])
def test_a_study_killed_here_comes_back_and_goes_on(study: Study, step: str, count: int) -> None:
    before = study.words()
    tuner = study.tune("--orphan-timeout", "2s", *study.question())
    give_up_s = time.monotonic() + 60
    while study.steps().count(step) < count:
        assert tuner.poll() is None, tuner.communicate()
        assert time.monotonic() < give_up_s, study.steps()
        time.sleep(0.01)
    for pid in processes_with("tune", study.unit.name):
        os.kill(pid, signal.SIGKILL)
    tuner.communicate()
    kept = study.num_levels()
    assert study.unit.wait_clean(within_s=20.0) == []  # the watchdog alone
    study.unit.wait_up()
    assert study.words() == before
    restore = study.start("restore")
    told, complaint = restore.communicate()
    assert (restore.returncode, "as before" in told) == (0, True), (told, complaint, study.steps())
    if step == "undo?":
        return  # the study itself was finished
    again = study.tune("--resume")
    out, complaint = again.communicate()
    assert again.returncode == 0, complaint
    assert study.num_levels() >= max(kept, 1)
    assert study.words() == before
    assert study.unit.wait_clean() == []
    assert "recommend" in out.lower()


def test_it_is_tuned_over_ssh(study: Study, sshd: SshBox) -> None:
    study.ssh_config = str(sshd.config)
    before = study.words()
    tuner = study.tune(*study.question())
    out, told = tuner.communicate()
    assert tuner.returncode == 0, told
    assert "as before" in told
    assert "recommend" in out.lower(), out
    assert study.words() == before
    assert study.unit.wait_clean() == []
