from dataclasses import replace

from spectune.domain.trial import Completed, PlannedCell
from spectune.perfmodel.evidence import Setting
from spectune.planning.goals import Choice
from spectune.planning.grid import grid_configs
from spectune.planning.search import Situation
from spectune.planning.situations import situation_of
from spectune.testing.study_values import make_completed, make_failed, make_study

LEVELS = (1, 4, 8)
SPEEDS = {1: 100.0, 4: 300.0, 8: 400.0}
LEVER = "--max-running-requests 8"
STUDY = make_study(num_steps=(0, 1, 2, 4), concurrency=LEVELS)


def at(trial: Completed, *levels: int) -> Completed:
    """The same trial with only these levels planned and measured."""
    cells = tuple(PlannedCell(concurrency=level) for level in levels)
    kept = tuple(level for level in trial.levels if level.concurrency in levels)
    return replace(trial, trial=replace(trial.trial, cells=cells), levels=kept)


def situation(*outcomes: Completed, levers: tuple[str, ...] = ("",)) -> Situation:
    study = replace(STUDY, space=replace(STUDY.space, levers=levers))
    return situation_of(study, outcomes, grid_configs(study.space))


def test_levels_that_a_launch_left_out_are_missing() -> None:
    found = situation(at(make_completed(1, 4, SPEEDS), 1, 8), make_completed(2, 1, SPEEDS))
    assert found.missing == {Choice(setting=Setting.chain(4)): (4,)}
    assert found.num_launches == 2


def test_a_second_launch_fills_them() -> None:
    first = at(make_completed(1, 4, SPEEDS), 1, 8)
    assert situation(first, at(make_completed(2, 4, SPEEDS), 4)).missing == {}


def test_a_setting_that_failed_is_neither_offered_nor_completed() -> None:
    study = STUDY
    first = at(make_completed(1, 2, SPEEDS), 1, 8)
    found = situation_of(study, (first, make_failed(2, 2)), grid_configs(study.space))
    assert found.missing == {}
    assert Choice(setting=Setting.chain(4)) not in found.choices  # more tokens than what ran out of memory


def test_a_level_without_a_figure_is_not_measured_for_ever() -> None:
    done = make_completed(1, 4, SPEEDS)
    empty = replace(done.levels[2], records=())
    found = situation(replace(done, levels=(*done.levels[:2], empty)))
    assert {cell.concurrency for cell in found.known} == set(LEVELS)
    assert {row.cell.concurrency for row in found.evidence.speeds} == {1, 4}


def test_levers_are_offered_only_where_requests_wait_for_room() -> None:
    done = make_completed(1, 4, SPEEDS)
    free = situation(
        replace(done, effective=replace(done.effective, max_running_requests=64)), levers=("", LEVER)
    )
    assert {choice.lever for choice in free.choices} == {""}
    short = situation(
        replace(done, effective=replace(done.effective, max_running_requests=4)), levers=("", LEVER)
    )
    with_lever = [choice.setting for choice in short.choices if choice.lever]
    assert with_lever
    assert all(not setting.is_off for setting in with_lever)
