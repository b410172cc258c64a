from dataclasses import replace

import pytest

from spectune.domain.study import ProofRule
from spectune.perfmodel.evidence import Setting
from spectune.perfmodel.history_evidence import lessons_of
from spectune.planning.goals import Choice
from spectune.planning.study_goals import goals_of, latency_of
from spectune.testing.study_values import make_completed, make_study

STUDY = make_study(concurrency=(1, 8))
SPEEDS = {1: 100.0, 8: 400.0}


def test_every_level_is_a_goal_of_its_own() -> None:
    goals = goals_of(STUDY, ())
    assert [goal.concurrency for goal in goals] == [(1,), (8,)]
    assert all(goal.floors == () for goal in goals)


def test_a_mix_is_one_goal_on_the_measured_levels_that_stand_for_its_own() -> None:
    """4 lies two thirds of the way from 1 to 8 in log concurrency; beyond 8 the nearest level stands."""
    mixed = replace(STUDY, proof=ProofRule(mix=((1, 0.5), (4, 0.3), (16, 0.2))))
    (goal,) = goals_of(mixed, ())
    assert dict(goal.weights) == pytest.approx({1: 0.6, 8: 0.4})


def test_a_mix_between_two_levels_asks_for_both_and_a_narrow_one_for_its_own_alone() -> None:
    between = replace(make_study(concurrency=(1, 4)), proof=ProofRule(mix=((2, 1.0),)))
    assert goals_of(between, ())[0].weights == ((1, 0.5), (4, 0.5))
    narrow = replace(make_study(concurrency=(1, 4, 16, 32)), proof=ProofRule(mix=((1, 0.6), (4, 0.4))))
    assert goals_of(narrow, ())[0].weights == ((1, 0.6), (4, 0.4))


def test_a_latency_limit_asks_for_the_speed_that_keeps_it() -> None:
    """A request's time per token is inverse to the tokens of all: half the limit, twice the speed."""
    lessons = lessons_of([make_completed(1, 4, SPEEDS)])
    summary = lessons[0].levels[1][1]
    p90_s = latency_of(summary, "tpot_p90")
    assert p90_s is not None
    assert summary.output_tps is not None
    limited = replace(STUDY, proof=ProofRule(slo=(("tpot_p90", p90_s / 2),)))
    _, goal = goals_of(limited, lessons)
    measured, other = Choice(setting=Setting.chain(4)), Choice(setting=Setting.chain(2))
    assert goal.floor(measured, 8) == pytest.approx(2 * summary.output_tps)
    assert goal.floor(other, 8) == pytest.approx(2 * summary.output_tps)
    assert goal.floor(measured, 1) == 0.0


def test_the_strictest_of_several_limits_counts() -> None:
    lessons = lessons_of([make_completed(1, 4, SPEEDS)])
    both = (("tpot_p50", 0.01), ("e2e_p90", 0.001))
    floors = {
        limits: goals_of(replace(STUDY, proof=ProofRule(slo=limits)), lessons)[0].floor(
            Choice(setting=Setting.chain(4)), 1
        )
        for limits in (both, both[:1], both[1:])
    }
    assert floors[both] == max(floors[both[:1]], floors[both[1:]])


def test_few_requests_bear_no_p99_so_the_p90_stands_in() -> None:
    summary = lessons_of([make_completed(1, 4, SPEEDS)])[0].levels[0][1]
    assert summary.e2e_s.p99 is None
    assert latency_of(summary, "e2e_p99") == summary.e2e_s.p90
