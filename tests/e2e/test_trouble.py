"""Servers that go wrong in the middle of a study: a result like any other, nothing measured is lost."""

import json
from typing import Any

import pytest

from spectune.testing.result_schema import schema_faults


@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        ("out-of-memory@1", "failed", "out of memory"),
        ("bad-argument@1", "failed", "bad argument"),
        ("die-after:8@1", "failed", "crash under load"),
        ("errors-after:8@1", "failed", "request errors"),
        ("garbage-after:8@1", "failed", "bad answer"),
        ("garbage-info@1", "failed", "bad answer"),
        ("wrong-settings@1", "void", "requested = effective"),
        ("counters-still@1", "void", ""),
    ],
)
def test_the_study_goes_on_and_says_what_happened(bench: Any, fault: str, outcome: str, reason: str) -> None:
    ran = bench.run("tune", *bench.question("0..2"), "--json", "-", *bench.server("--sim-fault", fault))
    assert ran.returncode == 0, ran.stderr
    assert bench.servers() == []
    result: dict[str, Any] = json.loads(ran.stdout)
    assert list(schema_faults(result)) == []
    assert [trial["outcome"] for trial in result["trials"]] == ["completed", outcome, "completed"]
    assert reason in result["trials"][1]["reason"]
    assert result["recommendation"]["config"]["num_steps"] == 2
    assert "eagle 1: no result:" in ran.stderr


def test_levels_measured_before_a_crash_are_kept_and_win_nothing(bench: Any) -> None:
    ran = bench.run("tune", *bench.question(), "--json", "-", *bench.server("--sim-fault", "die-after:20@1"))
    result: dict[str, Any] = json.loads(ran.stdout)
    crashed = result["trials"][1]
    assert crashed["outcome"] == "failed"
    assert [level["concurrency"] for level in crashed["levels"]] == [1]
    assert {winner["config"]["method"] for winner in result["winners"]} == {"off"}
