from dataclasses import replace

import pytest

from spectune.analysis.answers import StudyAnswers, answer
from spectune.analysis.caveats import Caveat, CaveatKind
from spectune.analysis.comparison import SpeedDifference
from spectune.analysis.launches import Arm
from spectune.analysis.noise import PRIOR_NOISE, Drift
from spectune.analysis.recommendation import Recommendation
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import ProofRule, StudyHistory
from spectune.report.proof_text import (
    caveat_text,
    changed_answers_text,
    confirmation_text,
    difference_text,
    drift_text,
    fresh_text,
    limits_text,
    lossless_text,
    mix_text,
    noise_text,
    schedule_why,
)
from spectune.report.study_document import study_document
from spectune.report.terminal import render_terminal
from spectune.testing.proved_study import proved_study
from spectune.testing.study_values import (
    history_of,
    make_completed,
    make_confirmed,
    make_failed,
    make_history,
    make_study,
)


def answers_of(history: StudyHistory) -> StudyAnswers:
    return answer(history, lambda _: ())


def recommended(history: StudyHistory) -> Recommendation:
    found = answers_of(history).recommendation
    assert found is not None
    return found


def test_a_difference_shows_its_interval_unless_that_tells_nothing() -> None:
    shown = SpeedDifference(ratio=1.5, ratio_ci=(1.44, 1.56))
    assert difference_text(shown, "off") == "1.50× of off [1.44×, 1.56×]"
    hidden = SpeedDifference(ratio=1.5, ratio_ci=(0.05, 22.0))
    assert difference_text(hidden, "off") == "1.50× of off (too noisy to tell)"
    assert difference_text(SpeedDifference(ratio=1.5, ratio_ci=None), "off") == "1.50× of off"


def test_a_confirmation_names_launches_and_the_advantage_over_off() -> None:
    found = recommended(proved_study())
    assert confirmation_text(found).startswith("confirmed on fresh prompts by a fresh launch: 1.22× of off [")
    assert "142.5 tok/s at 1 (0.95× of the search [" in fresh_text(found)


def test_what_fresh_prompts_overturned_is_told() -> None:
    outcomes = (
        make_completed(1, 0, {1: 100}),
        make_completed(2, 1, {1: 180}),
        make_completed(3, 2, {1: 190}),
        make_confirmed(4, 2, {1: 150}, {}),
        make_confirmed(5, 1, {1: 178}, {}),
    )
    text = confirmation_text(recommended(make_history(make_study(concurrency=(1,)), outcomes)))
    assert "the search alone would have said eagle 2, fresh prompts overturned it" in text


def test_a_fresh_launch_that_failed_is_told_and_nothing_is_called_overturned() -> None:
    failed = make_failed(3, 2)
    outcomes = (
        make_completed(1, 0, {1: 100}),
        make_completed(2, 2, {1: 190}),
        replace(failed, trial=replace(failed.trial, role="confirm")),
        make_confirmed(4, 0, {1: 100}, {}),
    )
    text = confirmation_text(recommended(make_history(make_study(concurrency=(1,)), outcomes)))
    assert text.startswith(
        "not measured again: the fresh launch of eagle 2 failed: out of memory: the server"
    )
    assert "overturned" not in text


def test_a_search_alone_is_not_called_confirmed() -> None:
    found = recommended(history_of({0: {1: 100}, 2: {1: 150}}))
    assert confirmation_text(found).startswith("not measured again: eagle 2 was not")
    assert fresh_text(found) == ""


@pytest.mark.parametrize(
    ("speeds", "ramp", "verdict", "why"),
    [
        (None, 690.0, "recommended", "over the levels it is 1.1"),
        (
            {1: 197.0, 4: 516.0, 16: 985.0, 32: 500.0},
            690.0,
            "loses",
            "it is slower than eagle 1 at 32: 0.36×",
        ),
        (None, 400.0, "loses", "it is slower than eagle 1 on the load up to 32 and down: 0.61×"),
        ({1: 150.0, 4: 480.0, 16: 1000.0, 32: 1500.0}, 690.0, "recommended", "over the levels it is 1.02×"),
        (
            {1: 150.0, 4: 480.0, 16: 1000.0, 32: 1440.0},
            690.0,
            "loses",
            "no more than a tie: one fixed setting",
        ),
    ],
    ids=["gains", "slow at zero steps", "slow on the ramp", "gains at one end", "ties"],
)
def test_a_schedules_verdict_has_its_reason(
    speeds: dict[int, float] | None, ramp: float, verdict: str, why: str
) -> None:
    found = answers_of(proved_study(schedule=speeds, ramp=ramp)).schedule
    assert found is not None
    assert found.verdict == verdict
    assert why in schedule_why(found)


def test_a_schedule_that_was_started_without_a_level_is_not_called_unstarted() -> None:
    history = history_of({0: {1: 100, 8: 800}, 2: {1: 150, 8: 450}})
    found = answers_of(history).schedule
    assert found is not None
    assert schedule_why(found) == "no server was started with it"
    assert schedule_why(replace(found, is_started=True)).startswith("its server was started, but no level")


def test_a_recommended_setting_that_changes_answers_is_warned_of_on_the_page() -> None:
    answers = answers_of(proved_study())
    config = recommended(proved_study()).config
    assert changed_answers_text(config, answers.lossless) == ""
    arms = tuple(
        replace(one, verdict="differs") if one.arm == Arm(config=config) else one
        for one in answers.lossless.arms
    )
    changed = replace(answers.lossless, arms=arms, verdict="differs")
    assert "its greedy answers are not off's (100% of the tokens" in changed_answers_text(config, changed)
    assert changed_answers_text(OFF, changed) == ""
    page = " ".join(render_terminal(study_document(replace(answers, lossless=changed))).split())
    assert "But its greedy answers are not off's" in page[page.index("Recommendation: ") :]


def test_equal_answers_are_exact_with_the_noise_floor_beside_them() -> None:
    text = lossless_text(answers_of(proved_study()).lossless)
    assert text.startswith("exact: ")
    assert "100% before a first difference; off agrees with itself in 100% of them" in text


def test_noise_and_drift_are_told_in_percent() -> None:
    assert "no setting was launched again" in noise_text(PRIOR_NOISE)
    assert "prior knowledge and 3 repeated launches" in noise_text(answers_of(proved_study()).noise)
    assert drift_text(PRIOR_NOISE) == ""
    drifted = replace(PRIOR_NOISE, drift=Drift(ratio=0.9, ratio_ci=(0.87, 0.93), num_arms=3))
    assert "the same cells ran −10% later on [−13%, −7.0%]" in drift_text(drifted)


def test_mix_and_limits_say_what_was_asked_and_what_is_out() -> None:
    history = history_of({0: {1: 100, 16: 1000}, 2: {1: 200, 16: 900}})
    proof = ProofRule(mix=((1, 0.5), (4, 0.5)), slo=(("e2e_p50", 0.5),))
    found = recommended(replace(history, study=replace(history.study, proof=proof)))
    assert (
        mix_text(found) == "for a mix of 50% at 1 and 50% at 4; 4 was not measured and is taken from 1 and 16"
    )
    assert "out for a latency limit: off (e2e p50 59" in limits_text(found)
    assert "no setting keeps them all" in limits_text(found)
    assert (mix_text(recommended(history)), limits_text(recommended(history))) == ("", "")


def test_a_p99_that_few_requests_cannot_tell_is_not_called_kept() -> None:
    history = history_of({0: {1: 100}})
    proof = ProofRule(slo=(("e2e_p99", 0.77),))
    text = limits_text(recommended(replace(history, study=replace(history.study, proof=proof))))
    assert text.startswith(
        "no setting is seen to break a latency limit; whether off keeps e2e p99 at 1 cannot"
    )
    assert "fewer than 200 requests" in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("no acceptance", "is it the draft of this model"),
        ("all accepted", "at its ceiling"),
        ("acceptance falls", "look at the engine"),
        ("unreadable counters", "cannot be true"),
        ("not fresh", "the workload has too few"),
    ],
)
def test_every_caveat_says_what_it_means(kind: CaveatKind, words: str) -> None:
    caveat = Caveat(kind=kind, config=SpecConfig.chain("eagle", 2), concurrency=(1, 8), value=0.5)
    assert words in caveat_text(caveat)
