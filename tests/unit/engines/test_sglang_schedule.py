import json
from pathlib import Path

import pytest

from spectune.domain.command import Command
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.engines.adapter import EngineFacts
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.schedule_forms import adaptive_json
from spectune.engines.sglang import SglangAdapter
from spectune.engines.sglang_schedule import DISABLING, in_force, refusal

RECORDED = Path(__file__).parents[2] / "transcripts" / "sglang-0.5.17" / "adaptive"
COMMAND = Command(
    argv=(
        "python", "-m", "sglang.launch_server", "--model-path", "m",
        "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d",
    )
)  # fmt: skip
SCHEDULE = Schedule.of((1, 4, 3), (5, 16, 1), (17, None, 0))
EAGLE3 = SpecConfig.chain("eagle3", 3)


def info(*, is_on: object) -> JsonAnswer:
    return JsonAnswer(json.dumps({"speculative_adaptive": is_on}), source="/server_info")


@pytest.mark.parametrize(
    ("version", "part"),
    [
        ("0.5.10.post1", "no adaptive mode"),
        ("0.5.12.post1", "no batch sizes"),
        ("0.5.13", "no range of 0"),
        ("0.5.14", "no range of 0"),
    ],
)
def test_old_versions_say_which_is_new_enough(version: str, part: str) -> None:
    adapter = SglangAdapter().knowing(EngineFacts(version=version))
    assert part in adapter.check_schedule(COMMAND, EAGLE3, SCHEDULE)


def test_new_and_unknown_versions_run_it() -> None:
    for version in ("", "0.5.15", "0.5.23"):
        assert (
            SglangAdapter().knowing(EngineFacts(version=version)).check_schedule(COMMAND, EAGLE3, SCHEDULE)
            == ""
        )
    positive = Schedule.of((1, 4, 3), (5, None, 1))
    assert (
        SglangAdapter().knowing(EngineFacts(version="0.5.13")).check_schedule(COMMAND, EAGLE3, positive) == ""
    )


@pytest.mark.parametrize("flag", DISABLING)
def test_what_silently_disables_it_is_named(flag: str) -> None:
    command = Command(argv=(*COMMAND.argv, flag))
    assert flag in SglangAdapter().check_schedule(command, EAGLE3, SCHEDULE)


def test_other_methods_trees_and_builds_without_the_flag_are_refused() -> None:
    adapter = SglangAdapter()
    assert "ngram" in adapter.check_schedule(COMMAND, SpecConfig.chain("ngram", 3), SCHEDULE)
    tree = SpecConfig(method="eagle3", num_steps=3, topk=2, num_draft_tokens=6)
    assert "topk" in adapter.check_schedule(COMMAND, tree, SCHEDULE)
    old = adapter.knowing(EngineFacts(help_text="--speculative-algorithm --speculative-num-steps"))
    assert "--speculative-adaptive-config" in old.check_schedule(COMMAND, EAGLE3, SCHEDULE)


def test_a_schedule_that_the_server_dropped_is_not_in_force() -> None:
    log = "[x] speculative_adaptive disabled: enable_dp_attention=True is not supported. Falling back"
    text = adaptive_json(SCHEDULE)
    assert in_force(info(is_on=False), log, text) is None
    assert refusal(log).startswith("speculative_adaptive disabled: enable_dp_attention")
    assert refusal("nothing of the kind") == ""


def test_a_step_that_was_not_built_is_not_in_force() -> None:
    text = adaptive_json(SCHEDULE)
    built = (
        "Built adaptive runtime state steps=0: elapsed=2s\nBuilt adaptive runtime state steps=1: elapsed=2s\n"
    )
    assert in_force(info(is_on=True), built, text) == SCHEDULE
    assert in_force(info(is_on=True), built.splitlines()[0], text) is None
    assert in_force(info(is_on=True), "", text) == SCHEDULE  # a log that does not say
    assert in_force(info(is_on=True), built, "") is None  # a file of the user's own


def test_a_recorded_server_tells_its_schedule() -> None:
    text = (RECORDED / "adapt.json").read_text("utf-8")
    adapter = SglangAdapter().knowing(EngineFacts(schedule_text=text))
    answers = ((RECORDED / "server_info.json").read_text("utf-8"),)
    found = adapter.read_settings(COMMAND, answers, (RECORDED / "states.log").read_text("utf-8"))
    assert found.config == SpecConfig.chain("eagle3", 4)
    assert found.schedule is not None
    assert found.schedule.max_steps == 4
    assert {part.num_steps for part in found.schedule.ranges} == {0, 2, 3, 4}
    without_file = SglangAdapter().read_settings(COMMAND, answers, "")
    assert without_file.schedule is None
