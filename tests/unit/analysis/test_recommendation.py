from dataclasses import replace

import pytest

from spectune.analysis.answers import answer
from spectune.analysis.recommendation import Recommendation
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import ProofRule
from spectune.testing.study_values import (
    SpeedTable,
    history_of,
    make_completed,
    make_failed,
    make_history,
    make_study,
)


def recommend(speeds: SpeedTable) -> Recommendation:
    found = answer(history_of(speeds), lambda config: ("--steps", str(config.num_steps))).recommendation
    assert found is not None
    return found


def test_the_least_mean_log_loss_wins_over_a_setting_that_is_best_at_one_level() -> None:
    found = recommend({0: {1: 100, 16: 1000}, 1: {1: 160, 16: 950}, 4: {1: 200, 16: 500}})
    assert found.config == SpecConfig.chain("eagle", 1)
    assert found.launch_args == ("--steps", "1")
    assert [level.speedup_over_off for level in found.levels] == pytest.approx([1.6, 0.95], rel=0.01)
    assert [level.loss for level in found.levels] == pytest.approx([0.2, 0.05], abs=0.01)


def test_off_is_recommended_when_it_is_best() -> None:
    found = recommend({0: {1: 100, 16: 1000}, 1: {1: 90, 16: 700}})
    assert found.config == OFF
    assert found.alternative is not None
    assert found.alternative.config == SpecConfig.chain("eagle", 1)
    assert found.alternative.mean_ratio == pytest.approx((0.9 * 0.7) ** 0.5, rel=0.01)


def test_a_mean_within_one_percent_goes_to_fewer_steps() -> None:
    found = recommend({0: {1: 100}, 2: {1: 199.5}, 3: {1: 200}})
    assert found.config.num_steps == 2
    assert found.is_tie_rule


def test_a_setting_that_lacks_a_level_is_not_recommended() -> None:
    study = make_study(concurrency=(1, 8))
    outcomes = (make_completed(1, 0, {1: 100, 8: 500}), make_completed(2, 1, {1: 900}))
    found = answer(make_history(study, outcomes), lambda _config: ()).recommendation
    assert found is not None
    assert found.config == OFF
    assert found.alternative is None


def test_nothing_measured_is_nothing_recommended() -> None:
    study = make_study(concurrency=(1,))
    found = answer(make_history(study, (make_failed(1, 0),)), lambda _config: ())
    assert found.recommendation is None
    assert found.winners == ()


def test_the_reasons_carry_step_time_beside_that_of_off() -> None:
    level = recommend({0: {1: 100}, 2: {1: 160}}).levels[0]
    assert level.tokens_per_step == pytest.approx(2.03, abs=0.01)
    assert level.off_step_s == pytest.approx(0.01, rel=0.03)
    assert level.step_s == pytest.approx(2 / 160, rel=0.03)


def recommend_for(speeds: SpeedTable, proof: ProofRule) -> Recommendation:
    history = history_of(speeds)
    found = answer(replace(history, study=replace(history.study, proof=proof)), lambda _: ()).recommendation
    assert found is not None
    return found


MIXED = {0: {1: 100, 16: 1000}, 1: {1: 160, 16: 950}, 4: {1: 200, 16: 500}}


@pytest.mark.parametrize(
    ("mix", "num_steps"),
    [(((1, 0.9), (16, 0.1)), 4), (((1, 0.5), (16, 0.5)), 1), (((1, 0.01), (16, 0.99)), 0)],
)
def test_the_mix_decides(mix: tuple[tuple[int, float], ...], num_steps: int) -> None:
    assert recommend_for(MIXED, ProofRule(mix=mix)).config.num_steps == num_steps


def test_a_setting_that_breaks_a_latency_limit_is_not_recommended() -> None:
    """A request of about 60 tokens takes 0.3 s at 200 tokens/s, and 0.6 s at 100."""
    speeds = {0: {1: 100, 16: 1000}, 1: {1: 160, 16: 950}, 4: {1: 200, 16: 600}}
    assert recommend_for(speeds, ProofRule()).config.num_steps == 1
    found = recommend_for(speeds, ProofRule(mix=((1, 1.0),), slo=(("e2e_p50", 0.33),)))
    assert found.config.num_steps == 4
    assert found.keeps_limits
    assert [check.is_kept for check in found.limits] == [False, False, True]


def test_when_no_setting_keeps_the_limits_the_best_is_recommended_and_told() -> None:
    found = recommend_for(MIXED, ProofRule(slo=(("e2e_p50", 0.001),)))
    assert found.config.num_steps == 1
    assert not found.keeps_limits


def test_only_the_levels_of_a_narrow_mix_must_have_been_measured() -> None:
    """The search measures levels with a weight only: the others must not be asked for."""
    study = replace(make_study(concurrency=(1, 4, 16, 32)), proof=ProofRule(mix=((1, 0.6), (4, 0.4))))
    outcomes = (make_completed(1, 0, {1: 100, 4: 380}), make_completed(2, 2, {1: 180, 4: 500}))
    found = answer(make_history(study, outcomes), lambda _: ()).recommendation
    assert found is not None
    assert found.config.num_steps == 2
    assert [level.concurrency for level in found.levels] == [1, 4]


def test_a_mix_between_two_levels_needs_both() -> None:
    study = replace(make_study(concurrency=(1, 4)), proof=ProofRule(mix=((2, 1.0),)))
    both, one = make_completed(1, 0, {1: 100, 4: 380}), make_completed(2, 2, {1: 180})
    found = answer(make_history(study, (both, one)), lambda _: ()).recommendation
    assert found is not None
    assert found.config == OFF
    assert found.mix.weights == {1: 0.5, 4: 0.5}
    assert answer(make_history(study, (one,)), lambda _: ()).recommendation is None
