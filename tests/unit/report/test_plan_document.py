import json
from dataclasses import replace

import pytest

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import ProofRule, SearchRule, Study
from spectune.planning import staged
from spectune.report.plan_document import (
    FINALISTS_OF_ONE_ROUND,
    MOST_FINALISTS,
    PlannedSetting,
    StudyPlan,
    plan_document,
    render_plan_json,
)
from spectune.report.terminal import render_terminal
from spectune.testing.study_values import make_study

PLAN = StudyPlan(
    study=make_study(num_steps=(0, 1)),
    settings=(
        PlannedSetting(config=OFF, launch_args=(), obstacle=""),
        PlannedSetting(config=SpecConfig.chain("eagle", 1), launch_args=("--steps", "1"), obstacle=""),
        PlannedSetting(config=SpecConfig.chain("odd", 1), launch_args=(), obstacle="no method odd"),
    ),
    min_launches=1,
    notes=("a note",),
)


def test_the_plan_names_settings_launches_and_time() -> None:
    text = render_terminal(plan_document(PLAN))
    assert "nothing was started" in text
    assert "--steps 1" in text
    assert "no method odd" in text
    assert "a note" in text
    assert "1 to 2 launches; about 1 min 40 s to 3 min 20 s in all, launches included." in text


def test_without_a_budget_no_time_is_promised() -> None:
    endless = replace(PLAN, study=replace(PLAN.study, budget_s=None))
    assert "without a limit" in render_terminal(plan_document(endless))
    assert json.loads(render_plan_json(endless))["expected_s"] is None


def test_the_json_carries_the_same_plan() -> None:
    value = json.loads(render_plan_json(PLAN))
    assert value["launches"] == {"min": 1, "max": 2}
    assert [setting["obstacle"] for setting in value["settings"]] == ["", "", "no method odd"]


THOROUGH = ProofRule(rounds=2, refine=3, has_schedule=True, has_equal_limits=True, is_lossless=True)
MODEL = SearchRule(kind="model")


def planned(study: Study, num_settings: int) -> StudyPlan:
    settings = tuple(
        PlannedSetting(config=SpecConfig.chain("eagle", k), launch_args=(), obstacle="")
        for k in range(num_settings)
    )
    return StudyPlan(study=study, settings=settings, min_launches=min(3, num_settings))


@pytest.mark.parametrize(
    ("num_settings", "proof", "search", "text"),
    [
        (9, ProofRule(), SearchRule(), "3 to 9 launches"),
        (9, ProofRule(rounds=1), SearchRule(), "4 to 12 launches"),
        (1, ProofRule(rounds=1), SearchRule(), "2 launches"),
        (9, THOROUGH, SearchRule(), "5 to 26 launches"),  # 9 + 2·4 finalists, 6 in between, 2 schedules, 1
        (3, ProofRule(has_schedule=True), SearchRule(), "4 to 7 launches"),  # 3 finalists, to set it against
        (9, ProofRule(refine=2, has_schedule=True), SearchRule(), "4 to 16 launches"),  # 9, 3, 3 between, 1
        (9, ProofRule(rounds=1), MODEL, "4 to 22 launches"),  # 9 with and without the lever, a tree, 3
        (9, ProofRule(rounds=1), replace(MODEL, max_launches=8), "4 to 8 launches"),
        (9, ProofRule(rounds=1), replace(MODEL, max_launches=1), "1 launch"),
        (0, THOROUGH, SearchRule(), "0 launches"),
    ],
)
def test_launches_of_the_proof_are_counted(
    num_settings: int, proof: ProofRule, search: SearchRule, text: str
) -> None:
    study = make_study()
    space = replace(study.space, levers=("", "--max-running-requests 4"), probe_topk=2)
    plan = planned(replace(study, space=space, proof=proof, search=search), num_settings)
    assert plan.launches_text == text
    assert plan.fewest_launches <= plan.max_launches
    assert f"{text};" in render_terminal(plan_document(plan))


def test_as_many_finalists_are_counted_as_the_planner_takes() -> None:
    assert staged.FINALISTS_OF_ONE_ROUND == FINALISTS_OF_ONE_ROUND
    assert staged.MOST_FINALISTS == MOST_FINALISTS


def test_the_mix_and_the_limits_are_told() -> None:
    proof = ProofRule(mix=((1, 0.75), (16, 0.25)), slo=(("ttft_p99", 0.5), ("tpot_p50", 0.015)))
    plan = replace(PLAN, study=replace(PLAN.study, proof=proof))
    text = " ".join(render_terminal(plan_document(plan)).split())
    assert "mix: the recommendation is for 75% at 1 and 25% at 16 concurrent requests" in text
    assert "limits: a setting must keep ttft p99 of 500 ms and tpot p50 of 15.0 ms" in text
    value = json.loads(render_plan_json(plan))
    assert value["mix"] == [[1, 0.75], [16, 0.25]]
    assert value["slo"] == {"ttft_p99": 0.5, "tpot_p50": 0.015}
    assert "mix:" not in render_terminal(plan_document(PLAN))
