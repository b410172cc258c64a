import math
from dataclasses import replace

import pytest
from scipy.special import stdtrit

from spectune.analysis.comparison import compare, measure_level, student_t_975
from spectune.domain.measurement import LevelMeasurement
from spectune.testing.study_values import make_level


def difference_interval(
    first: LevelMeasurement, second: LevelMeasurement, **options: float
) -> tuple[float, float]:
    interval = compare(measure_level(first), measure_level(second), **options).ratio_ci
    assert interval is not None
    return interval


@pytest.mark.parametrize("degrees", [4, 5, 7, 12, 30, 60, 200])
def test_students_t_is_that_of_scipy(degrees: int) -> None:
    assert student_t_975(degrees) == pytest.approx(float(stdtrit(degrees, 0.975)), abs=0.002)


def test_a_large_difference_is_decided() -> None:
    found = compare(measure_level(make_level(4, 400)), measure_level(make_level(4, 300)))
    assert found.is_decided
    assert found.ratio == pytest.approx(4 / 3, rel=0.01)


def test_equal_settings_are_not_decided() -> None:
    found = compare(
        measure_level(make_level(4, 400, noise=0.05, seed=1)),
        measure_level(make_level(4, 400, noise=0.05, seed=2)),
    )
    assert not found.is_decided


def test_one_launch_each_cannot_decide_two_percent() -> None:
    found = compare(measure_level(make_level(4, 408)), measure_level(make_level(4, 400)))
    assert not found.is_decided


def test_without_the_launch_prior_exact_records_would_decide_it() -> None:
    low, _ = difference_interval(make_level(4, 408), make_level(4, 400), launch_sd=0.0)
    assert low > 1


def test_swapping_the_settings_turns_the_interval_over() -> None:
    first, second = make_level(4, 400, noise=0.1, seed=1), make_level(4, 350, noise=0.1, seed=2)
    low, high = difference_interval(first, second)
    swapped_low, swapped_high = difference_interval(second, first)
    assert (low, high) == pytest.approx((1 / swapped_high, 1 / swapped_low))


def test_pairing_cancels_what_prompts_have_in_common() -> None:
    same_noise = difference_interval(
        make_level(4, 400, noise=0.3, seed=1), make_level(4, 300, noise=0.3, seed=1), launch_sd=0.0
    )
    other_noise = difference_interval(
        make_level(4, 400, noise=0.3, seed=1), make_level(4, 300, noise=0.3, seed=2), launch_sd=0.0
    )
    assert math.log(same_noise[1] / same_noise[0]) < 0.2 * math.log(other_noise[1] / other_noise[0])


def test_a_disturbed_level_could_have_been_faster_by_what_others_took() -> None:
    fast, slow = make_level(4, 400), make_level(4, 320)
    disturbed = replace(slow, foreign_cpu_share=0.5)
    low, high = difference_interval(fast, slow)
    assert difference_interval(fast, disturbed) == pytest.approx((low / 2, high))
    assert difference_interval(disturbed, fast)[1] == pytest.approx(2 / low)
    assert low > 1


def test_a_share_of_a_whole_core_and_more_decides_nothing_and_stays_finite() -> None:
    disturbed = replace(make_level(4, 100), foreign_cpu_share=1.7)
    found = compare(measure_level(make_level(4, 400)), measure_level(disturbed))
    assert found.ratio_ci is not None
    assert found.ratio_ci[0] == pytest.approx(4 * 0.05, rel=0.1)
    assert not found.is_decided


def test_too_few_common_requests_give_no_interval() -> None:
    found = compare(
        measure_level(make_level(1, 100, num_requests=4)), measure_level(make_level(1, 200, num_requests=4))
    )
    assert found.ratio_ci is None
    assert not found.is_decided


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        low, high = difference_interval(
            make_level(1, 110, noise=0.1, seed=2 * seed),
            make_level(1, 100, noise=0.1, seed=2 * seed + 1),
            launch_sd=0.0,
        )
        covered += low <= 1.1 <= high
    assert 180 <= covered <= 199
