"""The first thing a user runs: `spectune tune` with no server of their own."""

import json
from pathlib import Path
from typing import Any

from spectune.testing.result_schema import schema_faults


def embedded_servers(store: Path) -> list[str]:
    """Embedded engines that this bench started: its folder stands in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"spectune\0serve" in words and str(store).encode() in environment:
                found.append(entry.name)
    return found


def test_the_embedded_engine_is_tuned_without_any_argument_about_a_server(bench: Any) -> None:
    ran = bench.run("tune", "--num-steps", "0,3", "--concurrency", "1,4", "--budget", "12", "--json", "-")
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    assert list(schema_faults(result)) == []
    assert result["engine"]["name"] == "embedded"
    assert result["workload"]["name"] == "python-code"
    off, eagle, *again = result["trials"]
    assert {trial["role"] for trial in again} == {"confirm"}
    assert {trial["requested"]["num_steps"] for trial in again} == {0, 3}
    assert result["recommendation"]["confirmation"]["launches"] == 1
    assert result["lossless"]["verdict"] == "exact"
    assert eagle["effective"]["num_steps"] == 3
    assert all(1.5 < level["acceptance_length"] <= 4 for level in eagle["levels"])
    assert all(level["verify_steps"] == 0 and level["acceptance_length"] is None for level in off["levels"])
    assert eagle["effective"]["max_running_requests"] <= off["effective"]["max_running_requests"]
    assert embedded_servers(bench.folder) == []
