from pathlib import Path

import pytest

from spectune.clock import SystemClock
from spectune.errors import LoadError, ProtocolError
from spectune.loadgen.stream_client import LoadTarget
from spectune.loadgen.usage_mode import find_load_target
from spectune.testing.simulation import running_simulation


def find(tmp_path: Path, *flags: str, timeout_s: float = 10.0) -> LoadTarget:
    with running_simulation(tmp_path, *flags) as server:
        return find_load_target(
            server.endpoint,
            "simulated",
            path="/v1/completions",
            body='{"prompt": "x", "max_tokens": 2}',
            clock=SystemClock(),
            timeout_s=timeout_s,
        )


def test_continuous_usage_is_used_where_it_is_taken(tmp_path: Path) -> None:
    assert find(tmp_path).has_continuous_usage


def test_a_server_that_refuses_it_is_used_without(tmp_path: Path) -> None:
    assert not find(tmp_path, "--sim-fault", "refuse-continuous-usage").has_continuous_usage


def test_an_unreadable_stream_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="not json"):
        find(tmp_path, "--sim-fault", "garbage-after:1")


def test_errors_and_silence_are_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="HTTP 500"):
        find(tmp_path, "--sim-fault", "errors-after:1")
    with pytest.raises(LoadError, match="within 1 s"):
        find(tmp_path, "--sim-fault", "hang-after:1", timeout_s=1.0)
