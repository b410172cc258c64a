from dataclasses import replace

import pytest

from spectune.analysis.baselines import find_baselines
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.study_fit import fit_study
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, TrialId
from spectune.testing.study_values import make_completed, make_history, make_study

EAGLE_2 = Arm(config=SpecConfig.chain("eagle", 2))


def capped(completed: Completed, running: int | None) -> Completed:
    return replace(completed, effective=replace(completed.effective, max_running_requests=running))


def limited_off(number: int, speeds: dict[int, float]) -> Completed:
    off = make_completed(number, 0, speeds)
    return capped(replace(off, trial=replace(off.trial, lever="--max-running-requests 4")), 4)


def study_of(*outcomes: Completed) -> StudyHistory:
    return make_history(make_study(concurrency=(1, 8)), outcomes)


def test_off_is_both_baselines_where_no_capacity_binds() -> None:
    history = study_of(make_completed(1, 0, {1: 100, 8: 400}), make_completed(2, 2, {1: 150, 8: 500}))
    found = find_baselines(history, [EAGLE_2.config])
    assert (found.equal_limits, found.own_capacity, found.limited) == (TrialId(1), TrialId(1), None)


@pytest.mark.parametrize("running", [4, None])
def test_a_capacity_that_binds_or_is_unknown_leaves_equal_limits_open(running: int | None) -> None:
    speculating = capped(make_completed(2, 2, {1: 150, 8: 300}), running)
    found = find_baselines(study_of(make_completed(1, 0, {1: 100, 8: 400}), speculating), [EAGLE_2.config])
    assert (found.equal_limits, found.own_capacity) == (None, TrialId(1))


def test_the_capacity_of_a_setting_that_nobody_would_run_does_not_matter() -> None:
    speculating = capped(make_completed(2, 2, {1: 150, 8: 300}), 4)
    assert find_baselines(study_of(make_completed(1, 0, {1: 100}), speculating), []).equal_limits == 1


def test_off_with_a_lever_is_the_baseline_at_equal_limits() -> None:
    history = study_of(
        make_completed(1, 0, {1: 100, 8: 400}),
        capped(make_completed(2, 2, {1: 150, 8: 300}), 4),
        limited_off(3, {1: 100, 8: 200}),
    )
    found, fit = find_baselines(history, [EAGLE_2.config]), fit_study(history).levels[8]
    assert (found.equal_limits, found.own_capacity) == (TrialId(3), TrialId(1))
    assert found.speedups(fit, EAGLE_2) == pytest.approx((0.75, 1.5), rel=0.01)
    assert found.speedups(fit, OFF_ARM) == (1.0, None)
    assert (found.limit, found.limit_of) == (4, (EAGLE_2.config,))


def test_limits_are_equal_only_for_arms_that_run_no_more_at_once() -> None:
    history = study_of(
        make_completed(1, 0, {1: 100, 8: 400}),
        capped(make_completed(2, 2, {1: 150, 8: 300}), 4),
        capped(make_completed(3, 1, {1: 140, 8: 450}), 8),
        capped(make_completed(4, 3, {1: 150, 8: 300}), None),
        limited_off(5, {1: 100, 8: 200}),
    )
    found, fit = find_baselines(history, [EAGLE_2.config]), fit_study(history).levels[8]
    eagle_1, eagle_3 = (Arm(config=SpecConfig.chain("eagle", k)) for k in (1, 3))
    assert found.speedups(fit, EAGLE_2)[1] == pytest.approx(1.5, rel=0.01)
    assert found.speedups(fit, eagle_1)[1] is None
    assert found.speedups(fit, eagle_3)[1] is None  # what it runs at once is not known


def test_off_has_no_speedup_at_equal_limits_over_itself() -> None:
    history = study_of(make_completed(1, 0, {1: 100, 8: 400}), make_completed(2, 2, {1: 150, 8: 500}))
    found, fit = find_baselines(history, [EAGLE_2.config]), fit_study(history).levels[1]
    assert found.speedups(fit, OFF_ARM) == (1.0, None)
    assert found.speedups(fit, EAGLE_2) == pytest.approx((1.5, 1.5), rel=0.01)


def test_nothing_measured_has_no_baseline() -> None:
    found = find_baselines(study_of(), [])
    assert (found.equal_limits, found.own_capacity) == (None, None)
