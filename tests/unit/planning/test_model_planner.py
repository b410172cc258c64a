from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import ProofRule, Study
from spectune.domain.trial import Completed, Trial, TrialOutcome
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import CapacityCurve, Cell
from spectune.perfmodel.fitting import Layout, surface_of
from spectune.perfmodel.history_evidence import setting_of
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Propose, Stop
from spectune.planning.stopping import Budget
from spectune.testing.known_surface import make_truth
from spectune.testing.study_values import (
    make_completed,
    make_effective,
    make_failed,
    make_history,
    make_level,
    make_study,
)

# Tokens/s of dense 8B on an H200, vLLM, acceptance 0.7: the best depth falls with concurrency.
H200 = {
    0: {1: 200, 16: 2996, 64: 8965, 128: 13642},
    1: {1: 301, 16: 3997, 64: 11579, 128: 15628},
    2: {1: 356, 16: 4480, 64: 11478, 128: 14305},
    3: {1: 378, 16: 4613, 64: 11619, 128: 13791},
    4: {1: 381, 16: 4513, 64: 10716, 128: 12453},
    5: {1: 385, 16: 4507, 64: 9915, 128: 11250},
    6: {1: 381, 16: 4316, 64: 8985, 128: 10266},
}


def measured(number: int, steps: int, *, limit: int = 256) -> Completed:
    """A trial that reads the table; an engine without counters."""
    done = make_completed(number, steps, H200[steps])
    levels = tuple(replace(level, counters=None) for level in done.levels)
    effective = replace(done.effective, max_running_requests=limit)
    return replace(done, launch_s=100.0, levels=levels, effective=effective)


def study() -> Study:
    return make_study(num_steps=tuple(H200), concurrency=(1, 16, 64, 128))


def run(planner: ModelPlanner, failing: Mapping[int, str] | None = None) -> tuple[list[int], str]:
    """num_steps in order of launch, and the reason to stop."""
    outcomes: tuple[TrialOutcome, ...] = ()
    while True:
        match planner.next(study(), make_history(study(), outcomes)):
            case Stop(reason=reason):
                return [o.trial.config.num_steps for o in outcomes], reason
            case Propose(trial=trial):
                steps = trial.config.num_steps
                failed = steps in (failing or {})
                outcomes += (make_failed(trial.id, steps) if failed else measured(trial.id, steps),)


def test_the_best_setting_of_every_level_is_measured_in_fewer_launches_than_the_grid() -> None:
    launched, reason = run(ModelPlanner())
    for level in (1, 16, 64, 128):
        best = max(speeds[level] for speeds in H200.values())
        assert max(H200[k][level] for k in launched) > 0.985 * best
    assert launched[:2] == [6, 1]
    assert 0 in launched
    assert len(launched) < len(H200)
    assert "expected loss" in reason


def test_equal_histories_give_equal_answers() -> None:
    history = make_history(study(), (measured(1, 6), measured(2, 1)))
    assert ModelPlanner().next(study(), history) == ModelPlanner().next(study(), history)


def test_longer_drafts_than_one_that_ran_out_of_memory_are_left_out() -> None:
    launched, _ = run(ModelPlanner(), {6: "out_of_memory", 5: "out_of_memory"})
    assert launched[:3] == [6, 5, 4]
    assert len(set(launched)) == len(launched)


def test_downtime_that_is_used_up_ends_the_search() -> None:
    launched, reason = run(ModelPlanner(budget=Budget(tolerance=0.0, max_downtime_s=250.0)))
    assert len(launched) <= 3
    assert "s of downtime were allowed and used" in reason


def test_launches_are_limited() -> None:
    launched, reason = run(ModelPlanner(budget=Budget(tolerance=0.0, max_launches=2)))
    assert launched == [6, 0]
    assert "2 launches were allowed" in reason


def test_every_setting_may_be_proposed() -> None:
    trials = ModelPlanner().candidates(study())
    assert [t.config.num_steps for t in trials] == [6, 1, 0, 2, 3, 4, 5]
    assert [t.role for t in trials].count("baseline") == 1


SEVEN = (1, 2, 3, 4, 6, 8, 12)
LEVER = "--max-running-requests 12"
FREE = Budget()


def simulated(
    trial: Trial, theta: Floats, levels: tuple[int, ...], *, wall_s: float, room: int = 64
) -> Completed:
    """What a server that obeys the formula would measure of a trial; counters as half of drafts accepted."""
    setting = setting_of(trial.config)
    limit = 12 if trial.lever else room
    capacity = CapacityCurve(law="x", weight=1.0, running=((trial.lever, setting.num_draft_tokens, limit),))
    wanted = tuple(cell.concurrency for cell in trial.cells) or levels
    cells = tuple(Cell(setting=setting, concurrency=level, lever=trial.lever) for level in wanted)
    layout = Layout(groups=(("", setting.topk),))
    speeds = np.exp(surface_of(cells, layout, (capacity,)).log_speed(theta[None])[0])
    made = [replace(make_level(c, float(y)), counters=None) for c, y in zip(wanted, speeds, strict=True)]
    return Completed(
        trial=trial,
        effective=replace(make_effective(trial.config), max_running_requests=limit),
        launch_s=60.0,
        levels=tuple(replace(level, wall_s=wall_s) for level in made),
    )


def play(
    asked: Study, theta: Floats, *, wall_s: float = 1.0, room: int = 64, budget: Budget = FREE
) -> tuple[list[Trial], str]:
    """All trials of a study on the simulated server, and the reason to stop."""
    outcomes: tuple[TrialOutcome, ...] = ()
    while True:
        match ModelPlanner(budget=budget).next(asked, make_history(asked, outcomes)):
            case Stop(reason=reason):
                return [outcome.trial for outcome in outcomes], reason
            case Propose(trial=trial):
                outcomes += (simulated(trial, theta, asked.concurrency, wall_s=wall_s, room=room),)
                assert len(outcomes) < 20


def test_cheap_levels_are_all_measured() -> None:
    trials, _ = play(make_study(num_steps=tuple(range(6)), concurrency=SEVEN), make_truth(3))
    assert trials[0].cells != ()  # what a level costs is not known yet
    assert all(trial.cells == () for trial in trials[1:] if trial.role != "repeat")


def test_where_measuring_is_dear_a_launch_names_its_levels_and_one_setting_gets_all() -> None:
    trials, _ = play(make_study(num_steps=tuple(range(6)), concurrency=SEVEN), make_truth(3), wall_s=100.0)
    assert [tuple(c.concurrency for c in trial.cells) for trial in trials[:2]] == [(1, 4, 12)] * 2
    measured: dict[SpecConfig, set[int]] = {}
    for trial in trials:
        levels = {cell.concurrency for cell in trial.cells} or set(SEVEN)
        assert not levels & measured.get(trial.config, set())
        measured.setdefault(trial.config, set()).update(levels)
    assert any(levels == set(SEVEN) for levels in measured.values())
    again = [trial for trial in trials if trial.role == "repeat"]
    assert all(trial.cells for trial in again)


def test_what_is_best_over_all_has_every_level_in_the_end() -> None:
    """Otherwise only off could be recommended, as it is measured everywhere."""
    asked = make_study(num_steps=(0, 1, 4), concurrency=SEVEN)
    theta = make_truth(3)
    theta[1:6] = (
        -3.0,
        3.0,
        -7.0,
        -5.0,
        -4.0,
    )  # drafting and verifying cost little: 4 steps are best everywhere
    theta[8:10] = 2.5, -4.0
    trials, _ = play(asked, theta, wall_s=100.0)
    levels = {cell.concurrency for trial in trials if trial.config.num_steps == 4 for cell in trial.cells}
    assert levels == set(SEVEN)


def test_under_a_limit_every_launch_measures_every_level() -> None:
    asked = make_study(num_steps=tuple(range(6)), concurrency=SEVEN)
    trials, _ = play(asked, make_truth(3), wall_s=100.0, budget=Budget(max_launches=4))
    assert len(trials) <= 4
    assert all(trial.cells == () for trial in trials)


def test_the_best_tree_is_tried_once_or_the_reason_says_why_not() -> None:
    plain = make_study(num_steps=tuple(range(5)), concurrency=(1, 4))
    asked = replace(plain, space=replace(plain.space, probe_topk=2))
    generous, dear = make_truth(1), make_truth(1)
    generous[3], dear[3] = -12.0, 0.0  # a verified token costs nothing, or as much as a step
    generous[1] = dear[1] = -12.0
    trials, _ = play(asked, generous)
    trees = [trial.config for trial in trials if trial.config.topk > 1]
    assert [(c.topk, c.num_draft_tokens - 1) for c in trees] == [(2, 2 * trees[0].num_steps)]
    trials, reason = play(asked, dear)
    assert all(trial.config.topk == 1 for trial in trials)
    assert "no tree was probed" in reason or "was not probed: expected to gain" in reason


def test_a_lever_is_launched_where_requests_wait_and_not_elsewhere() -> None:
    plain = make_study(num_steps=tuple(range(4)), concurrency=(1, 4, 12))
    asked = replace(plain, space=replace(plain.space, levers=("", LEVER)))
    trials, _ = play(asked, make_truth(1), room=4)
    assert LEVER in {trial.lever for trial in trials}
    assert all(trial.role == "setting" for trial in trials if trial.lever)
    trials, _ = play(asked, make_truth(1), room=64)
    assert {trial.lever for trial in trials} == {""}


def test_a_mix_is_searched_for_as_one_goal() -> None:
    plain = make_study(num_steps=tuple(range(6)), concurrency=(1, 4, 12))
    theta = make_truth(1)
    mixed = replace(plain, proof=ProofRule(mix=((1, 1.0),)))
    trials, reason = play(mixed, theta)
    assert "(the mix)" in reason
    assert len(trials) <= len(play(plain, theta)[0])
