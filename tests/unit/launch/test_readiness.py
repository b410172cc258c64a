from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.engines.embedded import EmbeddedAdapter
from spectune.errors import EngineExited, EngineNotReady, ProtocolError
from spectune.launch.readiness import wait_until_ready
from spectune.testing.simulation import running_simulation
from spectune.tuning.bench import generation_probe

PROBE = generation_probe(EmbeddedAdapter())


def wait(tmp_path: Path, *flags: str, deadline_s: float = 20.0) -> str:
    with running_simulation(tmp_path, *flags, wait=False) as server:
        return wait_until_ready(server, PROBE, deadline_s=deadline_s, clock=SystemClock())


def test_a_server_that_generates_is_ready_and_names_its_model(tmp_path: Path) -> None:
    assert wait(tmp_path, "--sim-start-s", "0.3") == "simulated"


def test_the_key_is_used(tmp_path: Path) -> None:
    assert wait(tmp_path, "--api-key", "k") == "simulated"


def test_a_server_that_ends_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(EngineExited, match="status 3"):
        wait(tmp_path, "--sim-fault", "die-at-start")


def test_a_server_that_only_says_it_is_healthy_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(EngineNotReady, match=r"within 3 s.*503"):
        wait(tmp_path, "--sim-fault", "never-ready", deadline_s=3.0)


def test_a_generation_that_never_answers_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(EngineNotReady, match=r"within 1\.5 s"):
        wait(tmp_path, "--sim-fault", "hang-at-start", deadline_s=1.5)


def test_answers_that_are_not_http_are_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="is HTTP"):
        wait(tmp_path, "--sim-fault", "garbage-http")
