from dataclasses import replace

import pytest

from spectune.analysis.launches import OFF_ARM, Arm, arm_of, by_level, measured_levels, ramps
from spectune.domain.schedule import Schedule
from spectune.testing.study_values import (
    make_completed,
    make_confirmed,
    make_failed,
    make_history,
    make_level,
    make_study,
    make_trial,
)


def test_levels_of_trials_that_did_not_complete_do_not_count() -> None:
    crashed = replace(make_failed(2, 1), levels=(make_level(1, 900, num_steps=1),))
    cells = measured_levels(make_history(make_study(), (make_completed(1, 0, {1: 100}), crashed)))
    assert [cell.arm for cell in cells] == [OFF_ARM]


def test_every_launch_and_part_of_an_arm_counts() -> None:
    outcomes = (make_completed(1, 0, {1: 100, 8: 400}), make_confirmed(2, 0, {1: 90, 3: 200}, {8: 410}))
    levels = by_level(measured_levels(make_history(make_study(), outcomes)))
    cells = {level: [(c.trial, c.part) for c in found.cells] for level, found in levels.items()}
    assert cells == {1: [(1, "search"), (2, "fresh")], 3: [(2, "fresh")], 8: [(1, "search"), (2, "search")]}


def test_schedules_and_levers_are_arms_of_their_own() -> None:
    trial = make_trial(1, 3)
    schedule = Schedule.of((1, 4, 3), (5, None, 0))
    arms = {
        arm_of(trial),
        arm_of(replace(trial, lever="--max-running-requests 9")),
        arm_of(replace(trial, schedule=schedule)),
    }
    assert len(arms) == 3
    assert [arm for arm in arms if arm.is_setting] == [Arm(config=trial.config)]


def test_a_ramp_is_apart_from_the_level_of_its_peak_and_runs_at_its_whole_speed() -> None:
    completed = make_completed(1, 0, {8: 400})
    ramp = make_level(8, 200, part="ramp")
    history = make_history(make_study(), (replace(completed, levels=(*completed.levels, ramp)),))
    cells = measured_levels(history)
    assert [len(by_level(cells)[8].cells), len(ramps(cells)[8].cells)] == [1, 1]
    tokens = sum(record.output_tokens or 0 for record in ramp.records)
    assert ramps(cells)[8].cells[0].summary.output_tps == pytest.approx(tokens / ramp.wall_s, rel=0.01)
