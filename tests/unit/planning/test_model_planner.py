from collections.abc import Mapping
from dataclasses import replace

from spectune.domain.study import Study
from spectune.domain.trial import Completed, TrialOutcome
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Propose, Stop
from spectune.planning.stopping import Budget
from spectune.testing.study_values import make_completed, make_failed, make_history, make_study

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
    assert launched == [6, 1]
    assert "2 launches were allowed" in reason


def test_every_setting_may_be_proposed() -> None:
    trials = ModelPlanner().candidates(study())
    assert [t.config.num_steps for t in trials] == [6, 1, 0, 2, 3, 4, 5]
    assert [t.role for t in trials].count("baseline") == 1
