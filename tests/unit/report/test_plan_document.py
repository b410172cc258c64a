import json
from dataclasses import replace

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.report.plan_document import PlannedSetting, StudyPlan, plan_document, render_plan_json
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
