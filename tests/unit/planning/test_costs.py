from spectune.domain.trial import Infeasible
from spectune.planning.costs import downtime_s, num_launches
from spectune.testing.study_values import make_completed, make_failed, make_trial


def test_what_was_never_launched_costs_nothing() -> None:
    completed = make_completed(1, 0, {1: 100.0, 8: 500.0})
    outcomes = (completed, make_failed(2, 1), Infeasible(trial=make_trial(3, 2), reason="no"))
    assert num_launches(outcomes) == 2
    assert downtime_s(outcomes) == completed.launch_s + sum(level.wall_s for level in completed.levels)
    assert downtime_s(()) == 0
