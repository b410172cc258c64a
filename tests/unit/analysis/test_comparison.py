import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from spectune.analysis.comparison import LevelFit, SpeedDifference, fit_level, quantile
from spectune.analysis.launches import Arm, MeasuredLevel, side_by_side
from spectune.analysis.noise import PRIOR_NOISE, Noise
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import TrialId
from spectune.metrics.summary import summarise_level
from spectune.testing.study_values import make_level

FIRST, SECOND, THIRD = (Arm(config=SpecConfig.chain("eagle", k)) for k in (1, 2, 3))
NO_LAUNCH_NOISE = replace(PRIOR_NOISE, launch_sd=0.0)


def cell(trial: int, arm: Arm, level: LevelMeasurement) -> MeasuredLevel:
    return MeasuredLevel(trial=TrialId(trial), arm=arm, measurement=level, summary=summarise_level(level))


def fit_of(cells: Sequence[MeasuredLevel], noise: Noise = PRIOR_NOISE) -> LevelFit:
    fit = fit_level(side_by_side(cells), noise)
    assert fit is not None
    return fit


def compare_all(cells: Sequence[MeasuredLevel], noise: Noise = PRIOR_NOISE) -> SpeedDifference:
    return fit_of(cells, noise).difference(FIRST, SECOND)


def compare(first: LevelMeasurement, second: LevelMeasurement, noise: Noise = PRIOR_NOISE) -> SpeedDifference:
    return compare_all([cell(1, FIRST, first), cell(2, SECOND, second)], noise)


def interval(found: SpeedDifference) -> tuple[float, float]:
    assert found.ratio_ci is not None
    return found.ratio_ci


def width(found: SpeedDifference) -> float:
    low, high = interval(found)
    return math.log(high / low)


def test_a_large_difference_is_decided() -> None:
    found = compare(make_level(4, 400), make_level(4, 300))
    assert found.is_decided
    assert found.is_ahead
    assert found.ratio == pytest.approx(4 / 3, rel=0.01)


def test_equal_settings_are_not_decided() -> None:
    assert not compare(
        make_level(4, 400, noise=0.05, seed=1), make_level(4, 400, noise=0.05, seed=2)
    ).is_decided


def test_one_launch_each_cannot_decide_three_percent() -> None:
    assert not compare(make_level(4, 412), make_level(4, 400)).is_decided


def test_without_noise_of_launches_exact_records_would_decide_it() -> None:
    assert interval(compare(make_level(4, 408), make_level(4, 400), NO_LAUNCH_NOISE))[0] > 1


def test_swapping_the_settings_turns_the_interval_over() -> None:
    first, second = make_level(4, 400, noise=0.1, seed=1), make_level(4, 350, noise=0.1, seed=2)
    low, high = interval(compare(first, second))
    swapped_low, swapped_high = interval(compare(second, first))
    assert (low, high) == pytest.approx((1 / swapped_high, 1 / swapped_low))


def test_pairing_cancels_what_prompts_have_in_common() -> None:
    first = make_level(4, 400, noise=0.3, seed=1)
    same = compare(first, make_level(4, 300, noise=0.3, seed=1), NO_LAUNCH_NOISE)
    other = compare(first, make_level(4, 300, noise=0.3, seed=2), NO_LAUNCH_NOISE)
    assert width(same) < 0.2 * width(other)


def test_a_second_launch_of_each_narrows_the_interval_by_about_the_root_of_two() -> None:
    once = [cell(1, FIRST, make_level(4, 400)), cell(2, SECOND, make_level(4, 380))]
    again = [cell(3, FIRST, make_level(4, 404)), cell(4, SECOND, make_level(4, 376))]
    twice = compare_all([*once, *again])
    assert width(twice) == pytest.approx(width(compare_all(once)) / math.sqrt(2), rel=0.02)
    assert twice.ratio == pytest.approx(math.sqrt(400 / 380 * 404 / 376), rel=0.01)


def test_fresh_prompts_are_set_against_fresh_prompts_only() -> None:
    cells = [
        cell(1, FIRST, make_level(4, 400)),
        cell(2, SECOND, make_level(4, 300)),
        cell(3, FIRST, make_level(4, 200, part="fresh")),
        cell(4, SECOND, make_level(4, 150, part="fresh")),
    ]
    found = compare_all(cells)
    assert found.ratio == pytest.approx(4 / 3, rel=0.01)
    fit = fit_of(cells)
    assert fit.tps(FIRST) == pytest.approx(400, rel=0.01)  # on the search's prompts


def test_a_setting_that_was_not_measured_again_is_compared_by_the_search() -> None:
    cells = [
        cell(1, FIRST, make_level(4, 400)),
        cell(2, SECOND, make_level(4, 300)),
        cell(3, THIRD, make_level(4, 360)),
        cell(4, FIRST, make_level(4, 200, part="fresh")),
        cell(5, THIRD, make_level(4, 180, part="fresh")),
    ]
    fit = fit_of(cells)
    once, twice = fit.difference(FIRST, SECOND), fit.difference(FIRST, THIRD)
    assert once.ratio == pytest.approx(4 / 3, rel=0.01)
    assert width(twice) < 0.8 * width(once)


def test_two_levels_of_one_launch_do_not_count_as_two_launches() -> None:
    cells = [cell(trial, arm, make_level(4, 400)) for trial, arm in ((1, FIRST), (2, SECOND))]
    fresh = [cell(trial, arm, make_level(4, 400, part="fresh")) for trial, arm in ((1, FIRST), (2, SECOND))]
    assert width(compare_all([*cells, *fresh])) == pytest.approx(width(compare_all(cells)), rel=0.02)


def test_cells_without_common_prompts_are_not_compared() -> None:
    cells = [
        cell(1, FIRST, make_level(4, 400)),
        cell(2, SECOND, make_level(4, 300)),
        cell(3, THIRD, make_level(4, 900, part="fresh")),
    ]
    assert fit_of(cells).arms == (FIRST, SECOND)


def test_more_contenders_make_the_interval_wider() -> None:
    fit = fit_of([cell(1, FIRST, make_level(4, 400)), cell(2, SECOND, make_level(4, 300))])
    assert width(fit.difference(FIRST, SECOND, contenders=6)) > 1.2 * width(fit.difference(FIRST, SECOND))
    assert quantile(8, contenders=2) == quantile(8)


def test_a_disturbed_level_could_have_been_faster_by_what_others_took() -> None:
    fast, slow = make_level(4, 400), make_level(4, 320)
    disturbed = replace(slow, foreign_cpu_share=0.5)
    low, high = interval(compare(fast, slow))
    assert interval(compare(fast, disturbed)) == pytest.approx((low / 2, high))
    assert interval(compare(disturbed, fast))[1] == pytest.approx(2 / low)
    assert low > 1


def test_a_share_of_a_whole_core_and_more_decides_nothing_and_stays_finite() -> None:
    found = compare(make_level(4, 400), replace(make_level(4, 100), foreign_cpu_share=1.7))
    assert interval(found)[0] == pytest.approx(4 * 0.05, rel=0.1)
    assert not found.is_decided


def test_too_few_common_requests_give_no_interval() -> None:
    found = compare(make_level(1, 100, num_requests=4), make_level(1, 200, num_requests=4))
    assert found.ratio_ci is None
    assert not found.is_decided
    assert not found.is_ahead
    assert not found.is_behind


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        low, high = interval(
            compare(
                make_level(1, 110, noise=0.1, seed=2 * seed),
                make_level(1, 100, noise=0.1, seed=2 * seed + 1),
                NO_LAUNCH_NOISE,
            )
        )
        covered += low <= 1.1 <= high
    assert 180 <= covered <= 199


def test_launches_that_differ_by_the_prior_are_covered_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        first, second = (make_level(1, 100 * math.exp(rng.normal(0, 0.015))) for _ in range(2))
        low, high = interval(compare(first, second))
        covered += low <= 1 <= high
    assert covered >= 285
