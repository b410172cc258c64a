from dataclasses import replace

import pytest

from spectune.analysis.answers import StudyAnswers, answer
from spectune.analysis.shortlist import shortlist
from spectune.domain.shortlist import Gap
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import ProofRule, StudyHistory
from spectune.domain.trial import TrialOutcome
from spectune.testing.study_values import SpeedTable, make_completed, make_confirmed, make_history, make_study

EAGLE_1, EAGLE_3 = (SpecConfig.chain("eagle", k) for k in (1, 3))
PROOF = ProofRule(rounds=1, refine=2)


def history(searched: SpeedTable, fresh: SpeedTable, *, finished: str = "done") -> StudyHistory:
    levels = tuple(next(iter(searched.values())))
    outcomes: list[TrialOutcome] = [
        make_completed(number, k, row) for number, (k, row) in enumerate(searched.items(), 1)
    ]
    outcomes += [make_confirmed(10 + k, k, row, {}) for k, row in fresh.items()]
    study = replace(make_study(concurrency=levels), proof=PROOF)
    return make_history(study, tuple(outcomes), finished=finished)


def gaps(searched: SpeedTable, fresh: SpeedTable) -> tuple[Gap, ...]:
    return shortlist(history(searched, fresh)).gaps


def answered(found: StudyHistory) -> StudyAnswers:
    return answer(found, lambda _config: ())


UNMEASURED = "the settings that meet there were not both measured in between"
TWO: SpeedTable = {0: {4: 1000, 32: 1600}, 3: {4: 1250, 32: 1200}}


def test_the_next_levels_are_narrow_around_the_place_where_the_speeds_should_meet() -> None:
    (gap,) = gaps(TWO, {})
    assert (gap.first, gap.second, gap.low, gap.high) == (EAGLE_3, OFF, 4, 32)
    # log 1.25 ahead at 4, log 1.33 behind at 32: they meet at 4 · 8^0.437 = 9.9
    assert [level.concurrency for level in gap.levels] == [9, 11, 18]  # and the middle of 11 to 32
    assert all(level.needed == {EAGLE_3, OFF} for level in gap.levels)


def test_a_level_one_of_them_was_measured_at_comes_first_for_the_other() -> None:
    (gap,) = gaps(TWO, {0: {12: 1100}})
    assert gap.levels[0].concurrency == 12
    assert gap.levels[0].needed == {EAGLE_3}


def test_measured_neighbours_make_it_narrow() -> None:
    found = history(TWO, {0: {9: 1100, 10: 1200}, 3: {9: 1180, 10: 1150}})
    assert shortlist(found).gaps == ()
    (change,) = answered(found).crossovers
    assert (change.low, change.high) == (9, 10)
    assert answered(found).break_even.concurrency == (9, 10)
    assert answered(found).whys_wide == {}


def test_after_a_wrong_guess_the_middle_of_what_is_left_comes_first() -> None:
    (gap,) = gaps(TWO, {0: {9: 1000, 10: 1050}, 3: {9: 1200, 10: 1240}})
    assert (gap.low, gap.high) == (10, 32)
    assert gap.levels[0].concurrency == 17
    assert all(10 < level.concurrency < 32 for level in gap.levels)


THREE: SpeedTable = {0: {1: 400, 4: 1000}, 1: {1: 500, 4: 970}, 3: {1: 560, 4: 890}}


def test_a_third_setting_that_may_be_best_in_between_is_needed_there() -> None:
    (gap,) = gaps(THREE, {0: {2: 600, 3: 900}, 3: {2: 700, 3: 850}})
    assert (gap.first, gap.second, gap.low, gap.high) == (EAGLE_3, OFF, 2, 4)  # 3 does not tell yet
    (level,) = gap.levels
    assert level.concurrency == 3
    assert level.needed == {EAGLE_1}


def test_a_third_setting_that_is_best_in_between_is_a_change_of_its_own() -> None:
    found = answered(history(THREE, {0: {2: 600, 3: 900}, 3: {2: 700, 3: 850}, 1: {2: 690, 3: 940}}))
    changes = [(c.from_config, c.to_config, c.low, c.high) for c in found.crossovers]
    assert changes == [(EAGLE_3, EAGLE_1, 2, 3), (EAGLE_1, OFF, 3, 4)]
    assert found.break_even.concurrency == (3, 4)


def test_off_leads_in_between_only_where_no_other_speculation_may_lead() -> None:
    found = answered(history(THREE, {0: {3: 900}, 3: {3: 850}}))
    assert found.break_even.concurrency == (1, 4)
    found = answered(history(THREE, {0: {3: 900}, 3: {3: 850}, 1: {3: 880}}))
    assert found.break_even.concurrency == (1, 3)


def test_a_break_even_without_a_change_of_the_winner_is_narrowed_too() -> None:
    """Within 1 % off wins though speculation is a little faster."""
    (gap,) = gaps({0: {1: 400, 8: 1000}, 3: {1: 402, 8: 800}}, {})
    assert (gap.first, gap.second, gap.low, gap.high) == (EAGLE_3, OFF, 1, 8)


def test_a_dip_below_off_under_a_lead_at_the_highest_level_is_no_break_even_to_narrow() -> None:
    """Off wins at 4 by the tie rule: between 4 and 16 speculation falls behind, but only for a while."""
    found = gaps({0: {1: 100, 4: 1000, 16: 1000, 32: 1000}, 3: {1: 130, 4: 1005, 16: 980, 32: 1050}}, {})
    assert [(gap.low, gap.high) for gap in found] == [(1, 4), (16, 32)]


def test_the_changes_of_the_recommended_setting_come_first() -> None:
    speeds: SpeedTable = {
        0: {1: 100, 8: 400, 32: 1500},
        1: {1: 140, 8: 600, 32: 1300},
        3: {1: 190, 8: 500, 32: 900},
    }
    study = replace(make_study(concurrency=(1, 8, 32)), proof=replace(PROOF, mix=((32, 1.0),)))
    found = shortlist(replace(history(speeds, {}), study=study))
    assert found.recommended == OFF
    assert [(gap.first, gap.second) for gap in found.gaps] == [(EAGLE_1, OFF), (EAGLE_3, EAGLE_1)]
    assert found.rivals == (EAGLE_1, EAGLE_3)


@pytest.mark.parametrize(
    ("proof", "finished", "why"),
    [
        (PROOF, "done; off was not launched again: 4 launches were allowed and made", "the budget ended"),
        (PROOF, "done; off was not launched for the levels in between (9): about 15 s", "the budget ended"),
        (PROOF, "done; schedule 1-:2 was not launched: 9 launches were allowed and made", UNMEASURED),
        (PROOF, "done", UNMEASURED),
        (PROOF, "", "the study was interrupted"),
        (replace(PROOF, refine=0), "done", "levels in between were not asked for (--refine, --confirm)"),
        (replace(PROOF, rounds=0), "done", "levels in between were not asked for (--refine, --confirm)"),
        (replace(PROOF, rounds=0, has_schedule=True), "", "the study was interrupted"),
    ],
)
def test_a_change_that_stays_wide_says_why(proof: ProofRule, finished: str, why: str) -> None:
    found = history(TWO, {}, finished=finished)
    found = replace(found, study=replace(found.study, proof=proof))
    assert answered(found).why_wide((4, 32)) == why
    assert answered(found).why_wide((1, 2)) == ""


def test_a_limit_that_was_not_reached_is_not_why_a_change_stays_wide() -> None:
    found = history(TWO, {0: {12: 1100}}, finished="done")
    assert found.study.budget_s is not None
    assert answered(found).why_wide((4, 32)) == "levels in between were measured and did not tell"


def test_launches_for_it_that_were_not_enough_are_counted() -> None:
    found = history(TWO, {})
    refining = [
        replace(one, trial=replace(one.trial, role="refine"))
        for one in (make_confirmed(20 + number, 3, {20: 900}, {}) for number in range(PROOF.most_refining))
    ]
    found = replace(found, outcomes=(*found.outcomes, *refining))
    assert answered(found).why_wide((4, 32)) == "3 launches for levels in between did not do it"
