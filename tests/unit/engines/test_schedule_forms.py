import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.engines.schedule_forms import (
    adaptive_json,
    batch_size_rows,
    default_graph_sizes,
    export,
    lower_bounds,
    read_adaptive_json,
    read_batch_size_rows,
    tensorrt_obstacle,
    uncaptured_bounds,
    upper_bounds,
)

FALLING = Schedule.of((1, 4, 4), (5, 8, 2), (9, 32, 1), (33, None, 0))
RISING = Schedule.of((1, 4, 1), (5, None, 3))
ENGINES = {"embedded", "sglang", "vllm", "llamacpp", "tensorrt_llm"}


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    lows = [1, *sorted(draw(st.sets(st.integers(2, 900), max_size=5)))]
    highs = [low - 1 for low in lows[1:]]
    steps = draw(st.lists(st.integers(0, 8), min_size=len(lows), max_size=len(lows)).filter(any))
    return Schedule.of(*zip(lows, [*highs, None], steps, strict=True))


@given(schedules())
def test_a_schedule_survives_the_way_into_each_form_and_back(schedule: Schedule) -> None:
    assert read_adaptive_json(adaptive_json(schedule)) == schedule
    assert read_batch_size_rows(batch_size_rows(schedule), most=schedule.max_steps) == schedule


@given(schedules(), st.sampled_from(["eagle", "eagle3", "ngram", "draft_model", "mtp", "telepathy"]))
def test_every_engine_gets_a_text_or_a_reason(schedule: Schedule, method: str) -> None:
    texts = export(schedule, method)
    assert set(texts) == ENGINES
    assert all(texts.values())
    if method == "telepathy":
        assert all(text.startswith("not possible: ") for text in texts.values())


def test_sglang_gets_one_candidate_per_lower_bound_and_starts_with_the_largest() -> None:
    lines = export(FALLING, "eagle3")["sglang"].splitlines()
    assert json.loads(lines[1]) == {
        "1": {"candidate_steps": [4]},
        "5": {"candidate_steps": [2]},
        "9": {"candidate_steps": [1]},
        "33": {"candidate_steps": [0]},
    }
    flags = lines[-1]
    for wanted in (
        "--speculative-num-steps 4",
        "--speculative-num-draft-tokens 5",
        "--speculative-adaptive ",
    ):
        assert wanted in flags
    assert "0.5.15" in lines[0]
    assert "0.5.13" in export(Schedule.of((1, 4, 4), (5, None, 1)), "eagle")["sglang"]


def test_a_bound_between_captured_batch_sizes_is_told() -> None:
    assert uncaptured_bounds(FALLING, default_graph_sizes()) == ()
    shifted = Schedule.of((1, 11, 3), (12, None, 0))
    assert uncaptured_bounds(shifted, default_graph_sizes()) == (12,)
    assert "begins below 12" in export(shifted, "eagle")["sglang"]


def test_sglang_and_tensorrt_refuse_what_they_cannot_do() -> None:
    assert "eagle or eagle3" in export(FALLING, "ngram")["sglang"]
    assert "never rise" in export(RISING, "eagle3")["tensorrt_llm"]
    assert "never rise" in tensorrt_obstacle(RISING, SpecConfig.chain("eagle3", 3))
    assert "not possible" in export(Schedule.of((1, None, 0)), "eagle3")["vllm"]


def test_vllm_rows_are_inclusive_and_the_tail_is_carried_on() -> None:
    flag, text = shlex.split(export(FALLING, "eagle3")["vllm"].splitlines()[0])
    assert flag == "--speculative-config"
    assert json.loads(text) == {
        "method": "eagle3",
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 4, 4], [5, 8, 2], [9, 32, 1], [33, 1024, 0]],
    }


def test_vllm_clamps_and_fills_as_its_source_does() -> None:
    assert read_batch_size_rows([[1, 4, 9], [9, 16, 2]], most=5) == Schedule.of((1, 8, 5), (9, None, 2))
    assert read_batch_size_rows(None, most=5) is None
    assert read_batch_size_rows([[1, 4]], most=5) is None


def test_tensorrt_has_both_meanings_and_says_that_nothing_was_run() -> None:
    assert upper_bounds(FALLING) == {4: 4, 8: 2, 32: 1}
    assert upper_bounds(Schedule.of((1, 4, 4), (5, None, 2))) == {4: 4, 1024: 2}
    assert lower_bounds(FALLING) == {1: 4, 5: 2, 9: 1, 33: 0}
    text = export(FALLING, "mtp")["tensorrt_llm"]
    assert text.startswith("# UNVERIFIED")
    assert "  draft_len_schedule: {4: 4, 8: 2, 32: 1}" in text
    assert "  # draft_len_schedule: {1: 4, 5: 2, 9: 1, 33: 0}" in text


def test_llamacpp_has_a_launch_per_range_and_none_of_speculation_for_off() -> None:
    text = export(Schedule.of((1, 1, 4), (2, None, 0)), "draft_model")["llamacpp"]
    assert "# 1 at once\nllama-server --spec-type draft-simple --spec-draft-n-max 4" in text
    assert text.endswith("# 2 and more at once\nllama-server")


def test_the_embedded_engine_takes_the_label() -> None:
    text = export(FALLING, "draft_model")["embedded"]
    assert text == "--speculative-algorithm STANDALONE --speculative-schedule 1-4:4,5-8:2,9-32:1,33-:0"


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"1": {}}', '{"1": {"candidate_steps": [1, 3]}}', '{"ema_alpha": 0.2}', '{"1": [3]}',
     '{"١": {"candidate_steps": [1]}}'],
)  # fmt: skip
def test_a_file_that_chooses_among_candidates_is_no_schedule(text: str) -> None:
    assert read_adaptive_json(text) is None
