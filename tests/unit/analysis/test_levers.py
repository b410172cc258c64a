from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.analysis.answers import StudyAnswers, answer
from spectune.analysis.levers import LeverAnswer
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import Completed
from spectune.report.study_document import study_document
from spectune.report.terminal import render_terminal
from spectune.testing.study_values import make_completed, make_history, make_study

LEVER = "--max-running-requests 60"
EAGLE = {1: 200.0, 16: 800.0}
SEARCH = (make_completed(1, 0, {1: 100.0, 16: 700.0}), make_completed(2, 2, EAGLE))


def pulled(speeds: Mapping[int, float], number: int = 3) -> Completed:
    done = make_completed(number, 2, speeds)
    return replace(done, trial=replace(done.trial, lever=LEVER))


def answers_of(*more: Completed) -> StudyAnswers:
    history = make_history(make_study(concurrency=(1, 16)), (*SEARCH, *more))
    return answer(history, lambda _: ())


def lever_of(*more: Completed) -> LeverAnswer:
    (found,) = answers_of(*more).levers
    return found


def test_a_lever_that_gains_at_every_level_is_better() -> None:
    found = lever_of(pulled({1: 220.0, 16: 1000.0}))
    assert (found.config, found.lever, found.verdict) == (SpecConfig.chain("eagle", 2), LEVER, "better")
    assert found.mean_gain is not None
    assert found.mean_gain.ratio == pytest.approx((1.1 * 1.25) ** 0.5, rel=0.01)
    assert [level.concurrency for level in found.levels] == [1, 16]


def test_a_lever_that_loses_at_one_level_is_not_certain_and_one_that_gains_nothing_is_none() -> None:
    assert lever_of(pulled({1: 150.0, 16: 1400.0})).verdict == "not certain"
    assert lever_of(pulled(EAGLE)).verdict == "no gain"


def test_a_lever_measured_at_some_levels_has_no_mean() -> None:
    found = lever_of(pulled({16: 1400.0}))
    assert (found.mean_gain, found.verdict) == (None, "no gain")


def test_a_lever_never_becomes_the_recommendation_and_off_at_equal_limits_is_none() -> None:
    limited = make_completed(4, 0, {1: 100.0, 16: 300.0})
    limited = replace(limited, trial=replace(limited.trial, lever="--max-running-requests 4"))
    found = answers_of(pulled({1: 400.0, 16: 4000.0}), limited)
    assert [one.lever for one in found.levers] == [LEVER]
    assert found.recommendation is not None
    assert found.recommendation.levels[0].output_tps == pytest.approx(200.0, rel=0.02)


def test_the_page_says_what_a_flag_is_worth() -> None:
    page = render_terminal(study_document(answers_of(pulled({1: 220.0, 16: 1000.0}))))
    assert "eagle 2, --max-running-requests 60 (runs 46 at once): 1.17× of eagle 2" in page
    assert "worth setting" in page
