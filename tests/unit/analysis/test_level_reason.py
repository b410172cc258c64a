import pytest

from spectune.analysis.baselines import find_baselines
from spectune.analysis.level_reason import reasons
from spectune.analysis.study_fit import fit_study
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.testing.study_values import history_of

EAGLE_2 = SpecConfig.chain("eagle", 2)


def test_the_factors_of_a_speed_are_told_beside_offs() -> None:
    history = history_of({0: {1: 100}, 2: {1: 160}})
    fits = fit_study(history).levels
    (found,) = reasons(fits, EAGLE_2, (OFF, EAGLE_2), find_baselines(history, [EAGLE_2]))
    assert found.tokens_per_step is not None
    assert found.step_s is not None
    assert found.running is not None
    assert found.running * found.tokens_per_step / found.step_s == pytest.approx(found.output_tps, rel=0.01)
    assert found.extra_step_share == pytest.approx(0.2, abs=0.02)
    assert found.speedup_equal_limits == found.speedup_over_off == pytest.approx(1.6, rel=0.01)


def test_levels_that_the_others_lack_are_left_out() -> None:
    history = history_of({0: {1: 100}, 2: {1: 160, 8: 500}})
    fits = fit_study(history).levels
    assert [r.concurrency for r in reasons(fits, EAGLE_2, (OFF,), find_baselines(history, [EAGLE_2]))] == [1]
