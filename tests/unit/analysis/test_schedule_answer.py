from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.analysis.answers import answer
from spectune.analysis.schedule_answer import ScheduleAnswer
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import Completed, Failed, Infeasible, TrialOutcome
from spectune.testing.study_values import (
    make_completed,
    make_confirmed,
    make_failed,
    make_history,
    make_level,
    make_study,
)

SCHEDULE = Schedule.of((1, 4, 2), (5, None, 0))
OFF_SPEEDS, EAGLE_SPEEDS = {1: 100.0, 16: 900.0}, {1: 200.0, 16: 700.0}
SEARCH = (make_completed(1, 0, OFF_SPEEDS), make_completed(2, 2, EAGLE_SPEEDS))
AGAIN = (make_confirmed(3, 0, OFF_SPEEDS, {}), make_confirmed(4, 2, EAGLE_SPEEDS, {}))


def scheduled(speeds: Mapping[int, float], ramp: float | None = None) -> Completed:
    done = make_confirmed(5, 2, speeds, {})
    levels = done.levels if ramp is None else (*done.levels, make_level(16, ramp, part="ramp"))
    return replace(done, trial=replace(done.trial, role="schedule", schedule=SCHEDULE), levels=levels)


def with_ramp(done: Completed, tps: float) -> Completed:
    return replace(done, levels=(*done.levels, make_level(16, tps, part="ramp")))


def answer_of(*outcomes: TrialOutcome) -> ScheduleAnswer:
    history = make_history(make_study(concurrency=(1, 16)), (*SEARCH, *outcomes))
    found = answer(history, lambda _: (), lambda config, schedule: {config.method: schedule.label}).schedule
    assert found is not None
    return found


def test_a_schedule_that_was_not_started_is_suggested_and_exported() -> None:
    found = answer_of()
    assert (found.verdict, found.schedule) == ("not measured", SCHEDULE)
    assert found.exported == {"eagle": "1-4:2,5-:0"}
    assert found.measured == ()


def test_a_schedule_that_is_best_at_both_ends_is_recommended() -> None:
    found = answer_of(*AGAIN, scheduled({1: 198, 16: 890}))
    assert (found.verdict, found.loss) == ("recommended", None)
    low, high = found.measured
    assert low.vs_off is not None
    assert high.vs_best_fixed is not None
    assert low.vs_off.ratio == pytest.approx(1.98, rel=0.01)
    assert high.vs_best_fixed.ratio == pytest.approx(890 / 700, rel=0.01)
    assert dict(found.losses) == pytest.approx({1: 0.01, 16: 0.01}, abs=0.01)


def test_a_schedule_whose_zero_steps_run_slower_than_off_loses() -> None:
    found = answer_of(*AGAIN, scheduled({1: 198, 16: 750}))
    assert found.verdict == "loses"
    assert found.loss is not None
    assert (found.loss.to, found.loss.level.concurrency) == (OFF, 16)


def test_a_schedule_that_loses_on_the_way_up_and_down_loses() -> None:
    off, eagle = with_ramp(AGAIN[0], 500), with_ramp(AGAIN[1], 450)
    assert answer_of(off, eagle, scheduled({1: 198, 16: 890}, ramp=500)).verdict == "recommended"
    found = answer_of(off, eagle, scheduled({1: 198, 16: 890}, ramp=380))
    assert found.verdict == "loses"
    assert found.loss is not None
    assert found.loss.level.is_ramp


def test_a_schedule_that_gains_no_more_than_a_tie_is_not_recommended() -> None:
    found = answer_of(*AGAIN, scheduled({1: 200, 16: 702}))
    assert (found.verdict, found.loss is None) == ("loses", False)  # slower than off at 16
    flat = (make_completed(1, 0, {1: 100, 16: 710}), make_confirmed(3, 0, {1: 100, 16: 710}, {}))
    history = make_history(
        make_study(concurrency=(1, 16)), (flat[0], SEARCH[1], flat[1], AGAIN[1], scheduled({1: 200, 16: 702}))
    )
    tie = answer(history, lambda _: ()).schedule
    assert tie is not None
    assert (tie.verdict, tie.loss) == ("loses", None)


def test_a_schedule_whose_server_failed_says_so() -> None:
    failed = make_failed(5, 2)
    lost: Failed = replace(failed, trial=replace(failed.trial, role="schedule", schedule=SCHEDULE))
    found = answer_of(*AGAIN, lost)
    assert found.verdict == "not measured"
    assert "ran out of memory" in found.failure


def test_a_schedule_without_a_level_of_the_others_is_not_measured() -> None:
    assert answer_of(*AGAIN, scheduled({1: 198})).verdict == "not measured"


def test_a_suggested_schedule_is_exported_for_the_method_that_won() -> None:
    ngram = replace(SEARCH[1].trial, config=SpecConfig.chain("ngram", 2))
    history = make_history(make_study(concurrency=(1, 16)), (SEARCH[0], replace(SEARCH[1], trial=ngram)))
    found = answer(history, lambda _: (), lambda config, _: {config.method: config.label}).schedule
    assert found is not None
    assert found.config == SpecConfig.chain("ngram", 2)
    assert list(found.exported) == ["ngram"]


def test_whether_a_server_was_started_with_it_is_known() -> None:
    assert not answer_of(*AGAIN).is_started
    trial = scheduled({}).trial
    assert not answer_of(*AGAIN, Infeasible(trial=trial, reason="not for this engine")).is_started
    started = answer_of(*AGAIN, scheduled({}))
    assert (started.is_started, started.verdict) == (True, "not measured")


def test_one_setting_everywhere_needs_no_schedule() -> None:
    history = make_history(
        make_study(concurrency=(1,)), (make_completed(1, 0, {1: 100}), make_completed(2, 2, {1: 150}))
    )
    found = answer(history, lambda _: ())
    assert found.schedule is None
    assert found.recommendation is not None
    assert found.recommendation.config == SpecConfig.chain("eagle", 2)
