"""`tune --unit`, `restore` and `apply` as a user runs them, on a real systemd, locally and over ssh."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spectune.domain.command import HttpRequest
from spectune.errors import ServerUnreachable
from spectune.launch.http_probe import fetch
from spectune.launch.unit_name import UnitName
from spectune.testing.recording import free_port
from spectune.testing.service_rig import StandIn, processes_with
from spectune.testing.ssh_box import HOST, SshBox
from spectune.testing.systemd_box import SystemdBox

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(300)]
SIMULATED = "spectune.testing.simulated_server"
SECRET = "sk-verysecret0123456789"
APPLY = ("--yes", "--quiet-for", "0.3s")
FILE_SECRET = "fromthefile0123456789"


@dataclass(slots=True)
class Desk:
    """A user's command line: inside the box, or outside with an ssh config."""

    box: SystemdBox
    folder: Path
    sshd: SshBox | None = None
    outputs: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return {
            **os.environ, "XDG_DATA_HOME": str(self.folder / "data"), "PYTHONUNBUFFERED": "1", "PATH": path,
            "XDG_STATE_HOME": str(self.folder / "state"),
        }  # fmt: skip

    @property
    def place(self) -> list[str]:
        return ["--ssh", HOST] if self.sshd else []

    def start(self, *words: str) -> subprocess.Popen[str]:
        inside = [] if self.sshd else list(self.box.prefix)
        if self.sshd:
            program = self.folder / "bin" / "ssh"  # the user's own ssh, with the user's own config
            program.parent.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F "{self.sshd.config}" "$@"\n')
            program.chmod(0o755)
        return subprocess.Popen(
            [*inside, sys.executable, "-m", "spectune", *words],
            env=self.environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=self.folder,
        )  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=200)
        self.outputs += [out, err]
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def question(self, num_steps: str = "0,2") -> list[str]:
        """Options of a study of a few seconds."""
        prompts = self.folder / "prompts.jsonl"
        lines = ({"prompt": f"def f{i}(x):", "max_tokens": 8 + i % 8, "temperature": 0} for i in range(400))
        prompts.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return [
            "--workload", str(prompts), "--num-steps", num_steps, "--concurrency", "1,4", "--budget", "1",
            "--confirm", "0", "--yes", "--orphan-timeout", "3s", "--quiet-for", "0.3s", *self.place,
        ]  # fmt: skip

    def everything_kept(self) -> bytes:
        """All bytes of files of ours: store, journals, logs."""
        files = [
            path for name in ("data", "state") for path in (self.folder / name).rglob("*") if path.is_file()
        ]
        return b"\0".join(path.read_bytes() for path in files)


@dataclass(slots=True)
class Served:
    """A unit that runs an engine of the embedded dialect."""

    unit: StandIn
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.unit.name

    def words(self) -> list[str]:
        """What its main process was started with."""
        pid = self.unit.box.show(self.name, "MainPID")
        return self.unit.box.path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]


def serve(
    box: SystemdBox, *flags: str, module: str = f"-m {SIMULATED}", service: str = "", name: str = ""
) -> Served:
    unit = StandIn(box, name or f"engine-{free_port()}.service")
    command = f"{sys.executable} {module} --host 127.0.0.1 --port {unit.port} {' '.join(flags)}"
    box.unit(
        unit.name,
        f"[Service]\nWorkingDirectory=/\nRestart=always\nRestartSec=100ms\n{service}\nExecStart={command}\n",
    )
    box.systemctl("start", unit.name)
    return Served(unit, flags)


@pytest.fixture
def desk(box: SystemdBox, tmp_path: Path) -> Desk:
    return Desk(box, tmp_path)


@pytest.fixture
def ssh_desk(box: SystemdBox, sshd: SshBox, tmp_path: Path) -> Desk:
    return Desk(box, tmp_path, sshd)


@pytest.fixture
def engine(box: SystemdBox) -> Iterator[Served]:
    """Speculation on, a secret on the command line and one in an environment file."""
    secrets_file = box.folder / "engine.env"
    secrets_file.write_text(f"API_KEY={SECRET}\nHF_TOKEN='{FILE_SECRET}'\n")
    served = serve(
        box, "--speculative-algorithm EAGLE --speculative-num-steps 3", "--api-key ${API_KEY}",
        "--threads '1'", service=f"EnvironmentFile={secrets_file}",
    )  # fmt: skip
    yield served
    box.systemctl("stop", served.name, check=False)


def assert_given_back(served: Served, words: list[str]) -> None:
    assert served.unit.wait_clean() == []
    assert served.words() == words
    assert served.unit.box.show(served.name, "DropInPaths") == ""


def test_a_unit_is_tuned_here_and_comes_back_as_it_was(desk: Desk, engine: Served) -> None:
    words = engine.words()
    ran = desk.run("tune", "--unit", engine.name, *desk.question(), "--json", f"{desk.folder}/out.json")
    assert ran.returncode == 0, ran.stderr
    assert "given back: a real generation, and as before" in ran.stderr
    assert "expected downtime" in ran.stderr
    assert_given_back(engine, words)
    answers = json.loads((desk.folder / "out.json").read_text())
    assert {row["outcome"] for row in answers["trials"]} == {"completed"}
    assert answers["cost"]["downtime_s"] > 0
    assert "was away for about" in " ".join(ran.stdout.split())
    assert desk.run("restore").stdout.startswith("nothing to restore")


def test_over_ssh_it_comes_back_as_it_was_and_no_secret_reaches_anything_of_ours(
    ssh_desk: Desk, engine: Served
) -> None:
    words = engine.words()
    process = ssh_desk.start("tune", "--unit", engine.name, *ssh_desk.question(), "--report", "report.md")
    seen: set[str] = set()
    while process.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    seen_words = (
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
                except OSError:
                    continue
                if SIMULATED not in seen_words:  # servers are not ours to hide
                    seen.add(seen_words)
        time.sleep(0.02)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "given back: a real generation, and as before" in err
    assert_given_back(engine, words)
    dry = ssh_desk.run("tune", "--unit", engine.name, *ssh_desk.question(), "--dry-run")
    applied = ssh_desk.run("apply", "last", *APPLY)
    undone = ssh_desk.run("apply", "last", "--undo", *APPLY)
    assert (applied.returncode, undone.returncode) == (0, 0), undone.stderr
    assert_given_back(engine, words)
    shown = [out, err, dry.stdout, dry.stderr, applied.stdout, applied.stderr]
    shown += [(ssh_desk.folder / "report.md").read_text(), *seen]
    assert any("spectune" in text for text in seen)
    for secret in (SECRET, FILE_SECRET):
        assert [text for text in shown if secret in text] == []
        assert secret.encode() not in ssh_desk.everything_kept()


def test_the_winner_is_applied_for_good_and_taken_back_or_not_at_all(desk: Desk, box: SystemdBox) -> None:
    served = serve(box, "--speculative-algorithm EAGLE --speculative-num-steps 8")
    words = served.words()
    assert desk.run("tune", "--unit", served.name, *desk.question("0,1")).returncode == 0
    applied = desk.run("apply", "last", *APPLY)
    assert applied.returncode == 0, applied.stderr
    assert "+ExecStart=" in applied.stdout
    drop_in = box.etc / f"{served.name}.d" / "zy-spectune.conf"
    assert drop_in.exists()
    now = served.words()
    assert now != words
    assert served.unit.traces() == []
    box.systemctl("restart", served.name)
    assert served.words() == now
    again = desk.run("apply", "last", *APPLY)
    assert "nothing to change" in again.stdout
    undone = desk.run("apply", "last", "--undo", *APPLY)
    assert undone.returncode == 0, undone.stderr
    assert not drop_in.exists()
    assert_given_back(served, words)

    text = (box.etc / served.name).read_text()
    box.unit(served.name, text.rstrip("\n") + " --sim-fault wrong-settings@1 --sim-fault die-at-start@0\n")
    box.systemctl("restart", served.name)
    served.unit.wait_up()
    words = served.words()
    refused = desk.run("apply", "last", *APPLY)
    assert refused.returncode == 1
    assert "given back: a real generation, and as before" in refused.stderr
    assert not drop_in.parent.exists()
    assert_given_back(served, words)
    box.systemctl("stop", served.name)


def test_a_server_with_users_is_left_alone(desk: Desk, box: SystemdBox) -> None:
    served = serve(box, "--speculative-algorithm EAGLE --speculative-num-steps 2 --sim-time-scale 100")
    words, pid = served.words(), box.show(served.name, "MainPID")
    body = json.dumps({"model": "m", "prompt": "x", "max_tokens": 400})
    served.unit.wait_up()
    user = threading.Thread(target=ask_for_long, args=(served.unit, body), daemon=True)
    user.start()
    try:
        ran = desk.run("tune", "--unit", served.name, *desk.question())
        assert (ran.returncode, "`it serves nobody` must hold" in ran.stderr) == (2, True)
        assert (served.words(), box.show(served.name, "MainPID")) == (words, pid)
        assert served.unit.traces() == []
    finally:
        box.systemctl("stop", served.name)
        user.join(10)


def test_nothing_is_changed_without_a_yes_or_outside_the_window(desk: Desk, engine: Served) -> None:
    words, pid = engine.words(), engine.unit.box.show(engine.name, "MainPID")
    question = desk.question()
    question.remove("--yes")
    asked = desk.run("tune", "--unit", engine.name, *question)
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    now = time.localtime()
    begin = (now.tm_hour + 2) % 24
    late = desk.run("tune", "--unit", engine.name, *desk.question(), "--window", f"{begin}:00-{begin}:30")
    assert (late.returncode, "--window" in late.stderr) == (2, True)
    failed = desk.run("tune", "--unit", engine.name, *desk.question(), "--before-stop", "false")
    assert (failed.returncode, "--before-stop" in failed.stderr) == (1, True)
    assert (engine.words(), engine.unit.box.show(engine.name, "MainPID")) == (words, pid)
    assert engine.unit.traces() == []


def test_commands_run_around_it_and_the_downtime_is_kept(desk: Desk, engine: Served) -> None:
    words = engine.words()
    began = time.monotonic()
    ran = desk.run(
        "tune", "--unit", engine.name, *desk.question("0..8"), "--max-downtime", "5s",
        "--before-stop", f"touch {desk.folder}/drained", "--after-restore", f"touch {desk.folder}/undrained",
    )  # fmt: skip
    assert "the agreed downtime is over" in ran.stderr
    assert time.monotonic() - began < 30
    assert (desk.folder / "drained").exists()
    assert (desk.folder / "undrained").exists()
    assert_given_back(engine, words)


def test_a_signal_gives_it_back_at_once(desk: Desk, engine: Served) -> None:
    words = engine.words()
    process = desk.start("tune", "--unit", engine.name, *desk.question("0..8"))
    wait_for_trial(engine)
    for pid in processes_with("tune", engine.name):
        os.kill(pid, signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert "given back" in err
    assert "--resume" in err
    assert_given_back(engine, words)


def ask_for_long(unit: StandIn, body: str) -> None:
    """A user whose answer takes half a minute."""
    request = HttpRequest(method="POST", path="/v1/completions", body=body)
    with suppress(ServerUnreachable):
        fetch(unit.endpoint, request, timeout_s=60.0)


def wait_for_trial(served: Served) -> None:
    give_up_s = time.monotonic() + 30
    while not served.unit.box.path(f"/run/systemd/system/{served.name}.d").exists():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
    time.sleep(0.3)


def test_the_windows_end_gives_it_back_in_time(desk: Desk, engine: Served) -> None:
    words = engine.words()
    while not 15 <= time.localtime().tm_sec < 25:  # so that about 40 seconds are left of the minute
        time.sleep(0.2)
    now = time.localtime()
    begin, end = (now.tm_hour - 1) % 24, (now.tm_hour * 60 + now.tm_min + 1) % (24 * 60)
    ran = desk.run(
        "tune", "--unit", engine.name, *desk.question("0..8"), "--budget", "300",
        "--window", f"{begin:02d}:00-{end // 60:02d}:{end % 60:02d}",
    )  # fmt: skip
    assert "the agreed downtime is over" in ran.stderr
    assert "given back: a real generation, and as before" in ran.stderr
    assert_given_back(engine, words)


def test_restore_from_a_machine_without_the_journal(ssh_desk: Desk, engine: Served, tmp_path: Path) -> None:
    words = engine.words()
    process = ssh_desk.start("tune", "--unit", engine.name, *ssh_desk.question("0..8"))
    wait_for_trial(engine)
    key = UnitName.parse(engine.name).key
    elsewhere = Desk(ssh_desk.box, tmp_path / "elsewhere", ssh_desk.sshd)
    elsewhere.folder.mkdir()
    place = ("--unit", engine.name, "--ssh", HOST)
    alive = elsewhere.run("restore", *place)
    assert (alive.returncode, "`the tuner is gone` must hold" in alive.stderr) == (2, True)
    engine.unit.box.systemctl("kill", "-s", "KILL", f"spectune-watchdog-{key}.service")
    process.kill()
    process.communicate()
    give_up_s = time.monotonic() + 60
    while "`the tuner is gone` must hold" in (restored := elsewhere.run("restore", *place)).stderr:
        assert time.monotonic() < give_up_s  # its silence grows longer than the orphan timeout
        time.sleep(0.5)
    assert restored.returncode == 0, restored.stderr
    assert "is given back: a real generation, and as before" in restored.stdout
    assert_given_back(engine, words)
    again = elsewhere.run("restore", *place)
    assert (again.returncode, "there is none" in again.stderr) == (2, True)
