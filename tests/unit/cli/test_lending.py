import time
from dataclasses import replace

import pytest

from spectune.cli.lending import downtime_left_s, downtime_limit_s, downtime_spent_s
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Infeasible, UnfinishedTrial
from spectune.errors import ConfigError
from spectune.testing.study_values import (
    make_completed,
    make_failed,
    make_history,
    make_level,
    make_study,
    make_trial,
)

INTERRUPTED = make_history(
    make_study(),
    (
        make_completed(1, 0, {1: 50.0, 8: 200.0}),
        make_failed(2, 8),
        Infeasible(trial=make_trial(3, 9), reason="no memory"),
    ),
    finished="",
)
CUT = UnfinishedTrial(trial=make_trial(4, 1), effective=None, launch_s=7.0, levels=(make_level(1, 100.0),))


def spent_s(history: StudyHistory) -> float:
    return downtime_spent_s((*history.outcomes, *history.unfinished))


def test_what_an_interrupted_study_spent_is_off_its_limit() -> None:
    levels_s = sum(make_level(c, tps).wall_s for c, tps in ((1, 50.0), (8, 200.0)))
    assert spent_s(INTERRUPTED) == pytest.approx(1.5 + levels_s)
    cut = replace(INTERRUPTED, unfinished=(CUT,))
    assert spent_s(cut) == pytest.approx(8.5 + levels_s + make_level(1, 100.0).wall_s)
    assert downtime_left_s(1800.0, cut) == pytest.approx(1800.0 - spent_s(cut))


def test_a_new_study_has_all_of_it_and_no_limit_stays_none() -> None:
    assert downtime_left_s(1800.0, None) == 1800.0
    assert downtime_left_s(None, None) is None
    assert downtime_left_s(None, INTERRUPTED) is None


def test_a_study_whose_downtime_is_spent_is_not_resumed() -> None:
    limit_s = spent_s(INTERRUPTED)
    with pytest.raises(ConfigError, match="--resume study-1: `some of its --max-downtime"):
        downtime_left_s(limit_s, INTERRUPTED)


def test_giving_back_begins_before_the_limit_ends() -> None:
    now = time.struct_time((2026, 11, 1, 3, 0, 0, 6, 305, 0))
    assert downtime_limit_s(100.0, None, now) == 80.0
    assert downtime_limit_s(None, None, now) is None
