from dataclasses import replace

import pytest

from spectune.analysis.answers import answer
from spectune.domain.trial import Completed, Failed, Infeasible, UnfinishedTrial, Void
from spectune.testing.study_values import (
    make_completed,
    make_effective,
    make_failed,
    make_history,
    make_level,
    make_study,
    make_trial,
)

STUDY = make_study(concurrency=(1,))


def no_args(_config: object) -> tuple[str, ...]:
    return ()


def test_levels_of_a_trial_that_failed_are_shown_but_do_not_win() -> None:
    crashed = replace(make_failed(2, 1), levels=(make_level(1, 900, num_steps=1),))
    found = answer(make_history(STUDY, (make_completed(1, 0, {1: 100}), crashed)), no_args)
    assert found.trials[1].levels[0].output_tps is not None
    assert [winner.config.is_off for winner in found.winners] == [True]


def test_each_outcome_has_its_word_and_reason() -> None:
    trial = make_trial(2, 1)
    outcomes = (
        make_completed(1, 0, {1: 100}),
        make_failed(2, 1),
        Void(
            trial=trial,
            reason="runs 0 steps",
            effective=make_effective(trial.config),
            launch_s=1.0,
            levels=(),
        ),
        Infeasible(trial=trial, reason="not for this model"),
    )
    found = answer(make_history(STUDY, outcomes), no_args)
    assert [(t.outcome, t.reason) for t in found.trials] == [
        ("completed", ""),
        ("failed", "out of memory: the server ran out of memory; lower --max-running-requests."),
        ("void", "runs 0 steps"),
        ("infeasible", "not for this model"),
    ]
    assert found.trials[1].log_tail.startswith("MemoryError")


def test_a_level_that_was_measured_again_counts_once_with_the_later_figures() -> None:
    first, again = make_level(1, 50), make_level(1, 100, attempt=1)
    trial = make_trial(1, 0)
    completed = Completed(
        trial=trial, effective=make_effective(trial.config), launch_s=1.0, levels=(first, again)
    )
    (summary,) = answer(make_history(STUDY, (completed,)), no_args).trials[0].levels
    assert (summary.attempt, round(summary.output_tps or 0)) == (1, 100)


def test_an_interrupted_trial_is_told_apart_and_does_not_win() -> None:
    cut_off = UnfinishedTrial(
        trial=make_trial(2, 1), effective=None, launch_s=None, levels=(make_level(1, 900, num_steps=1),)
    )
    history = replace(
        make_history(STUDY, (make_completed(1, 0, {1: 100}),), finished=""), unfinished=(cut_off,)
    )
    found = answer(history, no_args)
    assert [winner.config.is_off for winner in found.winners] == [True]
    assert [unfinished.trial.id for unfinished in found.unfinished] == [2]


def test_engine_version_comes_from_the_first_server_that_got_ready() -> None:
    outcomes = (make_failed(1, 0), make_completed(2, 1, {1: 100}))
    assert answer(make_history(STUDY, outcomes), no_args).engine_version == "0.1.0"
    assert isinstance(outcomes[0], Failed)


def test_cost_counts_launches_and_wall_time() -> None:
    cost = answer(make_history(STUDY, (make_completed(1, 0, {1: 100}),)), no_args).cost
    assert (cost.launches, cost.wall_s, cost.downtime_s) == (1, 123.4, 0.0)


def test_a_borrowed_service_was_away_while_servers_were_launched_and_measured() -> None:
    done, failed = make_completed(1, 0, {1: 100}), make_failed(2, 1)
    void = Void(
        trial=make_trial(3, 2), reason="runs 0 steps", effective=done.effective, launch_s=2.0, levels=()
    )
    borrowed = make_history(replace(STUDY, service="unit llm.service on gpu1"), (done, failed, void))
    cut_off = UnfinishedTrial(trial=make_trial(4, 3), effective=None, launch_s=4.0, levels=())
    cost = answer(replace(borrowed, unfinished=(cut_off,)), no_args).cost
    assert cost.downtime_s == pytest.approx(1.5 + done.levels[0].wall_s + 2.0 + 4.0)
