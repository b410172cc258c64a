import math

import pytest

from spectune.analysis.level_guess import Guess
from spectune.analysis.study_fit import fit_study
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.testing.study_values import SpeedTable, make_completed, make_confirmed, make_history, make_study

EAGLE_1, EAGLE_3 = (SpecConfig.chain("eagle", k) for k in (1, 3))
SEARCHED: SpeedTable = {0: {1: 400, 4: 1000}, 1: {1: 500, 4: 970}, 3: {1: 560, 4: 890}}


def guess(fresh: SpeedTable, searched: SpeedTable = SEARCHED) -> Guess:
    outcomes = [make_completed(number, k, row) for number, (k, row) in enumerate(searched.items(), 1)]
    outcomes += [make_confirmed(10 + k, k, row, {}) for k, row in fresh.items()]
    levels = tuple(next(iter(searched.values())))
    return Guess.of(fit_study(make_history(make_study(concurrency=levels), tuple(outcomes))).levels)


def test_between_two_levels_a_setting_is_guessed_beside_the_others() -> None:
    xs = guess({}).at(2)
    assert xs[EAGLE_3] - xs[OFF] == pytest.approx((math.log(1.4) + math.log(0.89)) / 2, abs=0.01)
    assert max(xs, key=lambda config: xs[config]) == EAGLE_3
    assert guess({}).at(8) == {}


def test_a_measured_setting_is_taken_as_measured() -> None:
    xs = guess({0: {2: 600}, 3: {2: 720}}).at(2)
    assert xs[EAGLE_3] - xs[OFF] == pytest.approx(math.log(1.2), abs=0.01)


def test_a_level_is_open_where_a_setting_that_was_not_measured_may_lead() -> None:
    found = guess({0: {3: 900}, 3: {3: 850}})
    assert found.rivals_at(3) == {EAGLE_1}  # the guess: 1% behind off at 4, 25% ahead at 1
    assert found.rivals_at(3, OFF) == {EAGLE_1}
    assert guess({0: {3: 900}, 3: {3: 850}, 1: {3: 890}}).rivals_at(3) == frozenset()


def test_a_setting_that_is_guessed_behind_leaves_the_level_closed() -> None:
    slow: SpeedTable = {0: {1: 400, 4: 1000}, 1: {1: 300, 4: 700}, 3: {1: 560, 4: 890}}
    assert guess({0: {2: 600}, 3: {2: 720}}, slow).rivals_at(2) == frozenset()


def test_where_nothing_was_measured_nobody_is_guessed() -> None:
    empty = Guess.of({})
    assert empty.at(2) == {}
    assert empty.rivals_at(2) == frozenset()
    assert empty.measured(2) == ()
