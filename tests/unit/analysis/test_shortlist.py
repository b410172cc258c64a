from dataclasses import replace

import pytest

from spectune.analysis.shortlist import shortlist
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import SearchSpace
from spectune.domain.trial import Role, TrialId
from spectune.testing.study_values import (
    history_of,
    make_completed,
    make_effective,
    make_failed,
    make_history,
    make_study,
)

EAGLE_1, EAGLE_2, EAGLE_4 = (SpecConfig.chain("eagle", k) for k in (1, 2, 4))


def test_the_finalists_are_the_recommended_setting_off_and_the_other_winners() -> None:
    found = shortlist(
        history_of({0: {1: 100, 4: 380, 16: 900}, 1: {1: 150, 4: 450, 16: 800}, 4: {1: 200, 4: 400, 16: 500}})
    )
    assert found.recommended == EAGLE_1
    assert found.rivals == (OFF, EAGLE_4)
    changes = [(gap.first, gap.second, gap.low, gap.high) for gap in found.gaps]
    assert changes == [(EAGLE_4, EAGLE_1, 1, 4), (EAGLE_1, OFF, 4, 16)]
    assert found.schedule == Schedule.of((1, 2, 4), (3, 8, 1), (9, None, 0))


def test_one_setting_everywhere_has_only_off_as_a_rival_and_no_schedule() -> None:
    found = shortlist(history_of({0: {1: 100, 8: 380}, 1: {1: 150, 8: 450}, 4: {1: 120, 8: 400}}))
    assert (found.recommended, found.rivals, found.gaps, found.schedule) == (EAGLE_1, (OFF,), (), None)


def test_off_that_could_not_be_measured_is_no_rival() -> None:
    outcomes = (
        make_failed(1, 0),
        make_completed(2, 1, {1: 100, 8: 500}),
        make_completed(3, 2, {1: 150, 8: 400}),
    )
    found = shortlist(make_history(make_study(), outcomes))
    assert (found.recommended, found.rivals) == (EAGLE_2, (EAGLE_1,))


def test_nothing_measured_leaves_an_empty_list() -> None:
    found = shortlist(make_history(make_study(), ()))
    assert (found.recommended, found.rivals, found.gaps, found.schedule) == (None, (), (), None)


def test_a_change_above_the_capacity_of_the_most_steps_cannot_be_scheduled() -> None:
    study = make_study(concurrency=(1, 16, 48))
    off = make_completed(1, 0, {1: 100, 16: 900, 48: 2000})
    four = make_completed(2, 4, {1: 200, 16: 1000, 48: 1200})
    capped = replace(four, effective=replace(make_effective(EAGLE_4), max_running_requests=17))
    assert shortlist(make_history(study, (off, four))).schedule == Schedule.of((1, 27, 4), (28, None, 0))
    assert shortlist(make_history(study, (off, capped))).schedule is None


@pytest.mark.parametrize("role", ["confirm", "schedule"])
def test_what_is_launched_after_the_search_does_not_change_the_finalists(role: Role) -> None:
    history = history_of({0: {1: 100, 8: 380}, 1: {1: 150, 8: 450}})
    late = make_completed(3, 2, {1: 300, 8: 900})
    later = replace(late, trial=replace(late.trial, id=TrialId(3), role=role))
    found = shortlist(replace(history, outcomes=(*history.outcomes, later)))
    assert (found.recommended, found.rivals) == (EAGLE_1, (OFF,))


def test_the_schedules_chain_has_the_method_of_the_winners_not_the_studys_first() -> None:
    study = replace(
        make_study(concurrency=(1, 8)),
        space=SearchSpace(method="eagle", num_steps=(0, 2), more_methods=("ngram",)),
    )
    ngram = make_completed(3, 2, {1: 250, 8: 500})
    ngram = replace(ngram, trial=replace(ngram.trial, config=SpecConfig.chain("ngram", 2)))
    outcomes = (make_completed(1, 0, {1: 100, 8: 800}), make_completed(2, 2, {1: 150, 8: 450}), ngram)
    found = shortlist(make_history(study, outcomes))
    assert found.schedule == Schedule.of((1, 2, 2), (3, None, 0))
    assert found.schedule_config == SpecConfig.chain("ngram", 2)
    assert shortlist(make_history(study, outcomes[:1])).schedule_config is None
