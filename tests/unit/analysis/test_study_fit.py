import pytest

from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.study_fit import fit_study
from spectune.domain.spec_config import SpecConfig
from spectune.testing.study_values import make_completed, make_confirmed, make_history, make_study

EAGLE_1 = Arm(config=SpecConfig.chain("eagle", 1))


def test_every_level_is_fitted_and_parts_can_be_looked_at_alone() -> None:
    outcomes = (
        make_completed(1, 0, {1: 100, 8: 400}),
        make_completed(2, 1, {1: 150, 8: 500}),
        make_confirmed(3, 0, {1: 90, 3: 200}, {}),
        make_confirmed(4, 1, {1: 117, 3: 250}, {}),
    )
    found = fit_study(make_history(make_study(), outcomes))
    assert sorted(found.levels) == [1, 3, 8]
    assert found.levels[1].difference(EAGLE_1, OFF_ARM).ratio == pytest.approx((1.5 * 1.3) ** 0.5, rel=0.01)
    fresh = found.of_parts(["fresh"])
    assert sorted(fresh) == [1, 3]
    assert fresh[1].difference(EAGLE_1, OFF_ARM).ratio == pytest.approx(1.3, rel=0.01)


def test_nothing_measured_fits_nothing() -> None:
    found = fit_study(make_history(make_study(), ()))
    assert (dict(found.levels), dict(found.ramps), found.noise.num_repeats) == ({}, {}, 0)
