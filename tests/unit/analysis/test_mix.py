from dataclasses import replace

import pytest

from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.mix import Mix, losses, mean_log_speed, mix_of
from spectune.analysis.study_fit import fit_study
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import ProofRule
from spectune.testing.study_values import history_of, make_study


def mix(shares: tuple[tuple[int, float], ...], levels: tuple[int, ...]) -> Mix:
    return mix_of(replace(make_study(concurrency=levels), proof=ProofRule(mix=shares)))


def test_without_a_mix_every_level_counts_alike() -> None:
    found = mix((), (1, 4))
    assert found.weights == {1: 0.5, 4: 0.5}
    assert not found.is_asked


def test_shares_are_weights_of_measured_levels() -> None:
    found = mix(((1, 3.0), (16, 1.0)), (1, 4, 16))
    assert found.weights == {1: 0.75, 16: 0.25}
    assert all(level.is_measured for level in found.levels)


def test_a_level_between_two_is_taken_from_both_in_log_concurrency() -> None:
    found = mix(((8, 1.0),), (4, 16))
    assert found.weights == pytest.approx({4: 0.5, 16: 0.5})
    assert found.levels[0].neighbours == (4, 16)
    assert not found.levels[0].is_measured


def test_a_level_beyond_the_measured_ones_is_taken_from_the_nearest() -> None:
    assert mix(((64, 0.5), (1, 0.5)), (2, 16)).weights == {2: 0.5, 16: 0.5}


def test_an_arms_score_is_its_weighted_mean_log_speed_where_it_has_every_level() -> None:
    fits = fit_study(history_of({0: {1: 100, 4: 400}, 2: {1: 200, 4: 300}})).levels
    assert mean_log_speed(fits, OFF_ARM, {1: 0.5, 4: 0.5}) == pytest.approx(5.298, abs=0.01)
    assert mean_log_speed(fits, OFF_ARM, {1: 0.5, 32: 0.5}) is None


def test_losses_are_told_against_the_best_setting_of_each_level() -> None:
    fits = fit_study(history_of({0: {1: 100, 4: 400}, 2: {1: 200, 4: 300}})).levels
    found = dict(losses(fits, Arm(config=SpecConfig.chain("eagle", 2)), (1, 4)))
    assert found == pytest.approx({1: 0.0, 4: 0.25}, abs=0.01)
