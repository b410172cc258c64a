"""Runs the real command with real servers. Every test has its own store; nothing of the user's is touched."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spectune.testing.recording import free_port

SIMULATED = "spectune.testing.simulated_server"


@dataclass(slots=True)
class Workbench:
    """The command line in a folder of its own."""

    folder: Path
    port: int = field(default_factory=free_port)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "data" / "spectune" / "studies.db"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_DATA_HOME": str(self.folder / "data"), "PYTHONUNBUFFERED": "1"}

    def server(self, *flags: str) -> list[str]:
        """What stands after the options: a simulated server with these flags."""
        return ["--", sys.executable, "-m", SIMULATED, "--port", str(self.port), *flags]

    def question(self, num_steps: str = "0,1", budget: str = "1", *, is_thorough: bool = False) -> list[str]:
        """Options of a study of a few seconds, its answer confirmed only when thorough."""
        prompts = self.folder / "prompts.jsonl"
        if not prompts.exists():
            lines = (
                {"prompt": f"def f{i}(x):", "max_tokens": 8 + i % 8, "temperature": 0} for i in range(400)
            )
            prompts.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return [
            "--workload", str(prompts), "--num-steps", num_steps, "--concurrency", "1,4",
            *(["--thorough"] if is_thorough else ["--budget", budget, "--confirm", "0"]),
        ]  # fmt: skip

    def run(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end."""
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [sys.executable, "-m", "spectune", *words],
            env=self.environment, capture_output=True, text=True, timeout=300, check=False,
            stdin=subprocess.DEVNULL, cwd=self.folder, **options,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts the command."""
        process = subprocess.Popen(
            [sys.executable, "-m", "spectune", *words],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, cwd=self.folder,
        )  # fmt: skip
        self.started.append(process)
        return process

    def close(self) -> None:
        """Ends what the test left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def servers(self) -> list[int]:
        """Processes that serve this bench's port."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if SIMULATED.encode() in words and str(self.port).encode() in words:
                    found.append(int(entry.name))
        return found

    def wait_gone(self) -> bool:
        """Whether no server is left, within a few seconds."""
        return wait_until(lambda: not self.servers())


def wait_until(condition: Callable[[], bool], *, within_s: float = 15.0) -> bool:
    """Polls until the condition holds."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A bench whose store holds one finished study, for tests that only look at it."""
    workbench = Workbench(tmp_path_factory.mktemp("finished"))
    ran = workbench.run("tune", *workbench.question("0"), *workbench.server())
    assert ran.returncode == 0, ran.stderr
    yield workbench
    workbench.close()
    assert workbench.servers() == []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    workbench = Workbench(tmp_path)
    yield workbench
    workbench.close()
