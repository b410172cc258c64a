from dataclasses import replace

import numpy as np
import pytest

from spectune.analysis.latency_limits import check_limits, quantile_interval
from spectune.analysis.launches import Arm
from spectune.analysis.study_fit import fit_study
from spectune.domain.spec_config import OFF
from spectune.testing.study_values import history_of, make_completed, make_history, make_level, make_study


def test_order_statistics_cover_the_quantile_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        low, high = quantile_interval(rng.normal(size=80), 0.5)
        assert low is not None
        assert high is not None
        covered += low <= 0 <= high
    assert 0.93 <= covered / 400 <= 0.99


def test_few_values_leave_the_upper_end_of_a_high_quantile_open() -> None:
    assert quantile_interval(np.arange(30.0), 0.99)[1] is None
    assert quantile_interval(np.array([1.0]), 0.5) == (None, None)


def test_every_setting_is_held_to_every_limit_at_the_levels_that_count() -> None:
    fits = fit_study(history_of({0: {1: 100, 8: 100}, 2: {1: 200, 8: 800}})).levels
    found = check_limits(fits, (("e2e_p50", 1.0),), {1: 0.5, 8: 0.5})
    kept = {(check.config.num_steps, check.concurrency): check.is_kept for check in found}
    assert kept == {(0, 1): True, (2, 1): True, (0, 8): False, (2, 8): True}
    assert all(check.is_certain for check in found)
    assert next(check.value_s for check in found if not check.is_kept) == pytest.approx(4.7, rel=0.1)


def test_a_level_that_does_not_count_is_not_held_to_a_limit() -> None:
    fits = fit_study(history_of({0: {1: 100, 8: 100}})).levels
    assert [check.concurrency for check in check_limits(fits, (("ttft_p90", 9.0),), {8: 1.0})] == [8]


def test_a_limit_inside_the_interval_is_not_certain() -> None:
    fits = fit_study(history_of({0: {1: 100}})).levels
    (found,) = check_limits(fits, (("e2e_p50", 0.595),), {1: 1.0})
    assert not found.is_certain


@pytest.mark.parametrize(("limit_s", "is_kept", "is_told"), [(0.7, False, True), (0.77, True, False)])
def test_a_p99_of_few_requests_is_broken_by_their_p90_or_cannot_be_told(
    limit_s: float, is_kept: bool, is_told: bool
) -> None:
    """60 requests at 100 tokens/s: p90 about 0.74 s, p99 about 0.79 s; the search judges alike."""
    fits = fit_study(history_of({0: {1: 100}})).levels
    (found,) = check_limits(fits, (("e2e_p99", limit_s),), {1: 1.0})
    assert (found.is_kept, found.is_told, found.judged_by) == (is_kept, is_told, "p90")
    summary = fits[1].summary(Arm(config=OFF))
    assert summary.e2e_s.p99 is None
    assert found.value_s == summary.e2e_s.p90


def test_a_p99_of_200_requests_is_judged_by_itself() -> None:
    study = make_study(concurrency=(1,))
    done = make_completed(1, 0, {1: 100})
    many = replace(done, levels=(make_level(1, 100, num_requests=200),))
    (found,) = check_limits(fit_study(make_history(study, (many,))).levels, (("e2e_p99", 0.77),), {1: 1.0})
    assert (found.is_kept, found.is_told, found.judged_by) == (False, True, "p99")
