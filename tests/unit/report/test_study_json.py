import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.analysis.answers import StudyAnswers, answer
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import Infeasible, UnfinishedTrial, Void
from spectune.report.study_json import render_json, study_json
from spectune.testing.result_schema import STUDY, By, Pair, schema_faults
from spectune.testing.study_values import (
    history_of,
    make_completed,
    make_effective,
    make_failed,
    make_history,
    make_level,
    make_study,
    make_trial,
)

DOCS = Path(__file__).parents[3] / "docs" / "result-schema.md"


def launch_args(config: SpecConfig) -> tuple[str, ...]:
    return ("--steps", str(config.num_steps))


def full_answers() -> StudyAnswers:
    trial = make_trial(4, 3)
    void = Void(
        trial=trial,
        reason="ran 2 steps",
        effective=make_effective(trial.config),
        launch_s=1.0,
        levels=(make_level(1, 90),),
    )
    cut_off = UnfinishedTrial(
        trial=make_trial(6, 5), effective=None, launch_s=None, levels=(make_level(1, 120, num_steps=5),)
    )
    outcomes = (
        make_completed(1, 0, {1: 100, 16: 1000}),
        make_completed(2, 1, {1: 180, 16: 700}),
        make_failed(3, 2),
        void,
        Infeasible(trial=make_trial(5, 4), reason="no"),
    )
    history = make_history(make_study(concurrency=(1, 16)), outcomes, finished="")
    return answer(replace(history, unfinished=(cut_off,)), launch_args)


def parsed(answers: StudyAnswers) -> dict[str, object]:
    value: dict[str, object] = json.loads(render_json(answers))
    return value


@pytest.mark.parametrize(
    "answers",
    [
        full_answers(),
        answer(history_of({0: {1: 100}, 2: {1: 50}}), launch_args),
        answer(make_history(make_study(concurrency=(1,)), (make_failed(1, 0),)), launch_args),
        answer(make_history(make_study(), ()), launch_args),
    ],
    ids=["everything", "off wins", "all failed", "nothing yet"],
)
def test_the_json_keeps_the_schema(answers: StudyAnswers) -> None:
    assert list(schema_faults(parsed(answers))) == []


def test_the_figures_are_those_of_the_answers() -> None:
    value = study_json(full_answers())
    assert value["winners"] == [
        {
            "concurrency": 1,
            "config": {"method": "eagle", "num_steps": 1, "topk": 1, "num_draft_tokens": 2},
            "output_tps": pytest.approx(180, rel=0.01),
            "speedup_over_off": pytest.approx(1.8, rel=0.01),
            "speedup_equal_limits": pytest.approx(1.8, rel=0.01),
            "decided": True,
            "tie_to_fewer_steps": False,
            "rivals": [
                {
                    "config": {"method": "off", "num_steps": 0, "topk": 1, "num_draft_tokens": 1},
                    "ratio": pytest.approx(1.8, rel=0.01),
                    "ratio_ci": [pytest.approx(1.7, rel=0.03), pytest.approx(1.9, rel=0.03)],
                }
            ],
        },
        {
            "concurrency": 16,
            "config": {"method": "off", "num_steps": 0, "topk": 1, "num_draft_tokens": 1},
            "output_tps": pytest.approx(1000, rel=0.01),
            "speedup_over_off": 1.0,
            "speedup_equal_limits": None,
            "decided": True,
            "tie_to_fewer_steps": False,
            "rivals": [
                {
                    "config": {"method": "eagle", "num_steps": 1, "topk": 1, "num_draft_tokens": 2},
                    "ratio": pytest.approx(1.43, rel=0.01),
                    "ratio_ci": [pytest.approx(1.37, rel=0.03), pytest.approx(1.49, rel=0.03)],
                }
            ],
        },
    ]


def test_the_answer_of_off_alone_has_no_acceptance_length() -> None:
    value = study_json(answer(history_of({0: {1: 100}}), launch_args))
    assert value["trials"][0]["levels"][0]["acceptance_length"] is None  # type: ignore[call-overload, index]


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        (("schema",), "spectune.study/2"),
        (("trials", 0, "levels", 0, "disturbed"), 0),
        (("trials", 0, "levels", 0, "ttft_s", "p50"), "fast"),
        (("crossovers", 0, "concurrency"), [16, 1]),
        (("recommendation", "config", "num_steps"), None),
    ],
)
def test_the_checker_sees_each_kind_of_fault(path: tuple[str | int, ...], fault: object) -> None:
    value = parsed(full_answers())
    part: object = value
    for key in path[:-1]:
        part = part[key]  # type: ignore[index]
    part[path[-1]] = fault  # type: ignore[index]
    assert len(list(schema_faults(value))) >= 1


def test_the_checker_sees_missing_and_unknown_keys() -> None:
    value = parsed(full_answers())
    del value["cost"]
    value["price"] = 1
    assert sorted(schema_faults(value)) == ["study.cost: is missing", "study.price: is not in the schema"]


def test_every_key_is_documented() -> None:
    documented = set(re.findall(r"`([a-z0-9_]+)`", DOCS.read_text(encoding="utf-8")))
    assert set(_keys(STUDY)) <= documented


def _keys(shape: object) -> Iterator[str]:
    match shape:
        case Mapping():
            for key, part in shape.items():
                yield str(key)
                yield from _keys(part)
        case list() | tuple():
            for part in shape:
                yield from _keys(part)
        case Pair(shape=inner) | By(shape=inner):
            yield from _keys(inner)
        case _:
            return
