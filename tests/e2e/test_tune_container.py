"""`spectune tune --docker` with the fake docker and a real server: nothing of the container is lost.

EXPERIMENTAL, as the feature: no docker daemon was there to try it against.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spectune.testing.docker_rig import DockerRig
from spectune.testing.recording import free_port
from spectune.testing.service_rig import wait_until

LABELS = {"com.docker.compose.service": "llm"}


@dataclass(slots=True)
class Desk:
    """The command line beside a machine with one container."""

    rig: DockerRig
    folder: Path
    own: str

    def command(self, *words: str) -> tuple[list[str], dict[str, str]]:
        kept = {"XDG_DATA_HOME": str(self.folder / "data"), "XDG_STATE_HOME": str(self.folder / "state")}
        return [sys.executable, "-m", "spectune", *words], {**os.environ, **self.rig.env, **kept}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv, env = self.command(*words)
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=200
        )

    def question(self) -> list[str]:
        prompts = self.folder / "prompts.jsonl"
        lines = ({"prompt": f"def f{i}(x):", "max_tokens": 8, "temperature": 0} for i in range(200))
        prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return [
            "--workload", str(prompts), "--num-steps", "0,2", "--concurrency", "1", "--budget", "1",
            "--confirm", "0", "--quiet-for", "0.3s", "--yes",
        ]  # fmt: skip

    def assert_given_back(self) -> None:
        container = self.rig.service.container()
        assert container.id == self.own
        assert container.is_running
        assert not self.rig.service.has(self.rig.spare)
        assert not list((self.folder / "state" / "spectune" / "journals").glob("*.lock"))
        assert "nothing to restore" in self.run("restore").stdout


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rig = DockerRig(tmp_path / "rig")
    argv = (
        sys.executable, "-m", "spectune.testing.simulated_server", "--port", str(free_port()),
        "--api-key", "s3cret-key",
    )  # fmt: skip
    container = rig.add(*argv, labels=LABELS)
    yield Desk(rig, tmp_path, container.id)
    rig.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_composed", [False, True])
def test_a_container_is_tuned_and_given_back(desk: Desk, is_composed: bool) -> None:
    words = ["--docker", "llm", "--compose", "compose.yaml"] if is_composed else ["--docker", desk.rig.name]
    ran = desk.run("tune", *words, *desk.question())
    assert ran.returncode == 0, ran.stderr
    assert "EXPERIMENTAL" in ran.stderr
    assert (
        f"container {desk.rig.name} on this machine is given back: a real generation, and as before"
        in ran.stderr
    )
    assert "eagle 2" in ran.stdout
    created = desk.rig.calls("create")
    assert [call.count("--speculative-num-steps") for call in created] == [0, 1]
    desk.assert_given_back()
    for path in (desk.folder / "data").rglob("*"):
        assert path.is_dir() or b"s3cret-key" not in path.read_bytes(), path
    assert "s3cret-key" not in ran.stdout + ran.stderr
    assert "hf_abc" not in ran.stdout + ran.stderr


@pytest.mark.timeout(300)
def test_a_plan_changes_nothing(desk: Desk) -> None:
    ran = desk.run("tune", "--docker", desk.rig.name, *desk.question(), "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert desk.rig.spare in ran.stdout
    assert "HF_TOKEN=****" in ran.stdout
    asked = {words[0] for words in desk.rig.calls("stop", "rename", "create", "rm", "start")}
    assert asked == {"start"}  # the test's own


@pytest.mark.timeout(300)
def test_a_killed_tuner_is_finished_by_restore(desk: Desk) -> None:
    argv, env = desk.command("tune", "--docker", desk.rig.name, *desk.question())
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: len(desk.rig.calls("start")) > 1, within_s=100)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert desk.rig.service.has(desk.rig.spare)
    restored = desk.run("restore")
    assert restored.returncode == 0, restored.stderr
    assert "is given back: a real generation, and as before" in restored.stdout
    desk.assert_given_back()


def test_a_container_that_is_not_there_is_told(desk: Desk) -> None:
    ran = desk.run("tune", "--docker", "nobody", "--yes")
    assert ran.returncode == 2
    assert "a container named nobody" in ran.stderr
