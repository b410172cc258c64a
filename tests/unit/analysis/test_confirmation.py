from dataclasses import replace

import pytest

from spectune.analysis.answers import answer
from spectune.analysis.recommendation import Recommendation
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import Completed, Failed
from spectune.testing.study_values import (
    make_completed,
    make_confirmed,
    make_failed,
    make_history,
    make_study,
)

EAGLE_1, EAGLE_2 = (SpecConfig.chain("eagle", k) for k in (1, 2))
SEARCH = (
    make_completed(1, 0, {1: 100, 8: 400}),
    make_completed(2, 1, {1: 180, 8: 600}),
    make_completed(3, 2, {1: 190, 8: 620}),
)


def recommend(*later: Completed | Failed) -> Recommendation:
    found = answer(make_history(make_study(), (*SEARCH, *later)), lambda _: ()).recommendation
    assert found is not None
    return found


def test_without_a_fresh_launch_nothing_is_confirmed() -> None:
    found = recommend()
    assert (found.config, found.confirmation.verdict) == (EAGLE_2, "not measured again")


def test_fresh_prompts_that_say_the_same_confirm() -> None:
    found = recommend(
        make_confirmed(4, 2, {1: 171, 8: 558}, {8: 620}), make_confirmed(5, 0, {1: 90, 8: 360}, {8: 400})
    )
    confirmation = found.confirmation
    assert (found.config, found.instead_of, confirmation.verdict) == (EAGLE_2, None, "confirmed")
    assert [level.output_tps for level in confirmation.levels] == pytest.approx([171, 558], rel=0.01)
    assert confirmation.over_off is not None
    assert confirmation.over_off.ratio == pytest.approx((1.9 * 1.55) ** 0.5, rel=0.01)
    change = confirmation.levels[0].fresh_over_search
    assert change is not None
    assert change.ratio == pytest.approx(0.9, rel=0.01)
    assert change.ratio_ci is not None
    assert change.ratio_ci[0] < 0.9 < change.ratio_ci[1]
    assert confirmation.launches == 1


def test_a_rival_that_is_faster_on_fresh_prompts_takes_its_place() -> None:
    found = recommend(
        make_confirmed(4, 2, {1: 150, 8: 500}, {8: 510}),
        make_confirmed(5, 1, {1: 178, 8: 600}, {8: 600}),
        make_confirmed(6, 0, {1: 100, 8: 400}, {8: 400}),
    )
    assert (found.config, found.instead_of) == (EAGLE_1, EAGLE_2)
    assert found.confirmation.verdict == "confirmed"


def test_speculation_that_is_no_faster_than_off_on_fresh_prompts_is_not_confirmed() -> None:
    found = recommend(
        make_confirmed(4, 2, {1: 95, 8: 380}, {8: 600}), make_confirmed(5, 0, {1: 100, 8: 400}, {8: 400})
    )
    assert found.config == EAGLE_2  # both launches together are still ahead
    assert found.confirmation.verdict == "not confirmed"


def test_a_choice_of_the_search_that_was_not_measured_again_stays() -> None:
    found = recommend(make_confirmed(4, 1, {1: 178, 8: 600}, {}), make_confirmed(5, 0, {1: 100, 8: 400}, {}))
    assert (found.config, found.instead_of) == (EAGLE_2, None)
    assert (found.confirmation.verdict, found.confirmation.failure) == ("not measured again", "")


def test_a_fresh_launch_of_the_choice_that_failed_does_not_turn_the_answer_to_off() -> None:
    failed = make_failed(4, 2)
    lost = replace(failed, trial=replace(failed.trial, role="confirm"))
    found = recommend(lost, make_confirmed(5, 0, {1: 100, 8: 400}, {8: 400}))
    assert (found.config, found.instead_of) == (EAGLE_2, None)
    assert found.confirmation.verdict == "not measured again"
    assert found.confirmation.failure.startswith("out of memory: the server ran out of memory")


def test_a_rival_that_lacks_a_fresh_level_is_not_recommended_over_those_that_have_all() -> None:
    found = recommend(
        make_confirmed(4, 2, {1: 100, 8: 420}, {8: 425}),
        make_confirmed(5, 1, {1: 178}, {}),
        make_confirmed(6, 0, {1: 100, 8: 400}, {8: 400}),
    )
    assert found.config != EAGLE_1


def test_off_is_confirmed_beside_the_best_speculation() -> None:
    outcomes = (
        make_completed(1, 0, {1: 100}),
        make_completed(2, 1, {1: 80}),
        make_confirmed(3, 0, {1: 90}, {}),
        make_confirmed(4, 1, {1: 72}, {}),
    )
    found = answer(make_history(make_study(concurrency=(1,)), outcomes), lambda _: ()).recommendation
    assert found is not None
    assert (found.config, found.confirmation.verdict) == (OFF, "confirmed")
    assert found.confirmation.rival == EAGLE_1
    assert found.confirmation.over_off is None
