import pytest

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import SearchSpace, StudyHistory
from spectune.domain.trial import TrialOutcome
from spectune.errors import ConfigError
from spectune.planning.grid import GridPlanner, fewest_launches, grid_configs
from spectune.planning.planner import Propose, Stop
from spectune.testing.study_values import SpeedTable, make_completed, make_failed, make_history, make_study


def run_grid(
    speeds: SpeedTable,
    *,
    failing: frozenset[int] = frozenset(),
    num_steps: tuple[int, ...] = tuple(range(9)),
    is_exhaustive: bool = False,
) -> tuple[list[int], str]:
    """Settings tried and the reason to stop, when the planner is answered with these speeds."""
    levels = tuple(next(iter(speeds.values())))
    study = make_study(num_steps=num_steps, concurrency=levels, is_exhaustive=is_exhaustive)
    outcomes: tuple[TrialOutcome, ...] = ()
    planner = GridPlanner()
    while True:
        match planner.next(study, make_history(study, outcomes, finished="")):
            case Stop(reason=reason):
                return [outcome.trial.config.num_steps for outcome in outcomes], reason
            case Propose(trial=trial):
                steps = trial.config.num_steps
                outcome = (
                    make_failed(trial.id, steps)
                    if steps in failing
                    else make_completed(trial.id, steps, speeds[steps])
                )
                outcomes = (*outcomes, outcome)


def curve(*speeds: float, level: int = 1) -> dict[int, dict[int, float]]:
    return {steps: {level: speed} for steps, speed in enumerate(speeds)}


def test_stops_when_the_optimum_is_followed_by_two_worse_settings() -> None:
    tried, reason = run_grid(curve(100, 140, 160, 150, 130, 120, 110, 100, 90))
    assert tried == [0, 1, 2, 3, 4]
    assert "two" in reason


def test_a_second_peak_right_behind_one_dip_is_found() -> None:
    tried, _ = run_grid(curve(100, 140, 130, 170, 120, 110, 100, 90, 80))
    assert tried == [0, 1, 2, 3, 4, 5]


def test_every_level_must_be_passed() -> None:
    speeds = {steps: {1: 100 + 10 * min(steps, 5) - steps, 32: 1000 - 50 * steps} for steps in range(9)}
    tried, _ = run_grid(speeds)
    assert tried == [0, 1, 2, 3, 4, 5, 6, 7]


def test_off_that_wins_needs_two_settings_beside_it() -> None:
    tried, _ = run_grid(curve(100, 90, 80, 70, 60, 50, 40, 30, 20))
    assert tried == [0, 1, 2]


def test_a_failed_setting_counts_as_passed_and_is_not_tried_again() -> None:
    tried, _ = run_grid(curve(100, 140, 160, 150, 130, 1, 1, 1, 1), failing=frozenset({3}))
    assert tried == [0, 1, 2, 3, 4]


def test_a_rising_curve_is_followed_to_the_end_of_the_space() -> None:
    tried, reason = run_grid(curve(*range(100, 109)))
    assert tried == list(range(9))
    assert "every setting" in reason


def test_two_failures_with_nothing_measured_end_the_search() -> None:
    tried, reason = run_grid(curve(*range(100, 109)), failing=frozenset(range(9)))
    assert tried == [0, 1]
    assert "none" in reason


def test_settings_that_were_asked_for_are_all_tried() -> None:
    speeds = {steps: {1: 100.0 - steps} for steps in (0, 2, 4, 7)}
    tried, _ = run_grid(speeds, num_steps=(0, 2, 4, 7), is_exhaustive=True)
    assert tried == [0, 2, 4, 7]


def test_a_resumed_study_goes_on_behind_the_last_trial() -> None:
    study = make_study(concurrency=(1,))
    outcomes = (make_completed(1, 0, {1: 100}), make_completed(2, 1, {1: 140}))
    proposal = GridPlanner().next(study, make_history(study, outcomes, finished=""))
    assert isinstance(proposal, Propose)
    assert (proposal.trial.id, proposal.trial.config) == (3, SpecConfig.chain("eagle", 2))


def test_off_is_the_baseline_and_comes_first() -> None:
    study = make_study()
    first = GridPlanner().candidates(study)[0]
    assert (first.role, first.config.is_off) == ("baseline", True)
    assert {trial.role for trial in GridPlanner().candidates(study)[1:]} == {"setting"}


def test_an_empty_history_begins_with_the_first_setting() -> None:
    study = make_study()
    empty = StudyHistory(study=study, plans=(), outcomes=(), finished="", wall_s=0.0)
    assert GridPlanner().next(study, empty) == Propose(trial=GridPlanner().candidates(study)[0])


def test_trees_get_a_node_for_each_branch_unless_told_otherwise() -> None:
    free = grid_configs(SearchSpace(method="eagle", num_steps=(2,), topk=2))
    told = grid_configs(SearchSpace(method="eagle", num_steps=(2,), topk=2, num_draft_tokens=6))
    assert [config.num_draft_tokens for config in (*free, *told)] == [5, 6]


def test_a_tree_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_steps < num_draft_tokens"):
        grid_configs(SearchSpace(method="eagle", num_steps=(1,), topk=2, num_draft_tokens=60))


def test_fewest_launches_are_those_of_off_winning() -> None:
    assert fewest_launches(SearchSpace(method="eagle", num_steps=tuple(range(9)))) == 3
    assert fewest_launches(SearchSpace(method="eagle", num_steps=tuple(range(9)), is_exhaustive=True)) == 9
