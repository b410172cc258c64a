"""Everything a study answers, as one value: the report renders it, nothing is computed after it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from spectune.analysis.crossover import Crossover, find_crossovers
from spectune.analysis.recommendation import Recommendation, choose_setting
from spectune.analysis.study_fit import fit_study
from spectune.analysis.winners import Winner, find_winners
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    Failed,
    Infeasible,
    Trial,
    TrialOutcome,
    UnfinishedTrial,
    Void,
)
from spectune.metrics.summary import LevelSummary, settle_levels, summarise_level

OutcomeWord = Literal["completed", "failed", "infeasible", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAnswer:
    """One trial's figures.

    Attributes:
        trial: what was asked.
        outcome: how it ended.
        reason: why it did not complete; "" when it did.
        log_tail: last lines of the server's log when it failed.
        effective: what the server said it runs, if it got that far.
        launch_s: seconds until ready, if it got that far.
        levels: figures by ascending concurrency.
    """

    trial: Trial
    outcome: OutcomeWord
    reason: str
    log_tail: str
    effective: EffectiveSettings | None
    launch_s: float | None
    levels: tuple[LevelSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedAnswer:
    """A trial an interruption cut off.

    Attributes:
        trial: what was asked.
        levels: figures of the levels that were measured.
    """

    trial: Trial
    levels: tuple[LevelSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the study took.

    Attributes:
        launches: servers started.
        wall_s: seconds over all sittings.
        downtime_s: seconds in which a service of the user was away; 0 where the study starts its own server.
    """

    launches: int
    wall_s: float
    downtime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyAnswers:
    """The answers.

    Attributes:
        study: the question.
        engine_version: as the engine says, "" when no server got ready.
        trials: every ended trial in order of launch.
        unfinished: trials cut off by an interruption.
        winners: one per level that has a measured setting.
        crossovers: where the winner changes.
        recommendation: None when no setting was measured at every level.
        cost: what it took.
        finished: why the search stopped; "" when it was interrupted.
    """

    study: Study
    engine_version: str
    trials: tuple[TrialAnswer, ...]
    unfinished: tuple[UnfinishedAnswer, ...]
    winners: tuple[Winner, ...]
    crossovers: tuple[Crossover, ...]
    recommendation: Recommendation | None
    cost: Cost
    finished: str


def answer(history: StudyHistory, launch_args: Callable[[SpecConfig], tuple[str, ...]]) -> StudyAnswers:
    """The study's answers, from raw facts alone.

    Args:
        history: everything that was measured.
        launch_args: the engine's flags for a setting.
    """
    fit = fit_study(history)
    winners = find_winners(fit.levels, history.study.concurrency)
    chosen = choose_setting(fit.levels, history.study.concurrency)
    trials = tuple(_trial_answer(outcome) for outcome in history.outcomes)
    return StudyAnswers(
        study=history.study,
        engine_version=next((t.effective.engine_version for t in trials if t.effective is not None), ""),
        trials=trials,
        unfinished=tuple(_unfinished_answer(unfinished) for unfinished in history.unfinished),
        winners=winners,
        crossovers=find_crossovers(winners),
        recommendation=chosen and replace(chosen, launch_args=launch_args(chosen.config)),
        cost=Cost(launches=history.launches, wall_s=history.wall_s, downtime_s=0.0),
        finished=history.finished,
    )


def _trial_answer(outcome: TrialOutcome) -> TrialAnswer:
    match outcome:
        case Completed():
            return _of(outcome, "completed", "", outcome.effective, outcome.launch_s, outcome.levels)
        case Failed():
            reason = f"{outcome.kind.replace('_', ' ')}: {outcome.detail}"
            failed = _of(outcome, "failed", reason, outcome.effective, outcome.launch_s, outcome.levels)
            return replace(failed, log_tail=outcome.log_tail)
        case Void():
            return _of(outcome, "void", outcome.reason, outcome.effective, outcome.launch_s, outcome.levels)
        case Infeasible():
            return _of(outcome, "infeasible", outcome.reason, None, None, ())
        case _:
            assert_never(outcome)


def _of(
    outcome: TrialOutcome,
    word: OutcomeWord,
    reason: str,
    effective: EffectiveSettings | None,
    launch_s: float | None,
    levels: tuple[LevelMeasurement, ...],
) -> TrialAnswer:
    return TrialAnswer(
        trial=outcome.trial,
        outcome=word,
        reason=reason,
        log_tail="",
        effective=effective,
        launch_s=launch_s,
        levels=_summaries(levels),
    )


def _unfinished_answer(unfinished: UnfinishedTrial) -> UnfinishedAnswer:
    return UnfinishedAnswer(trial=unfinished.trial, levels=_summaries(unfinished.levels))


def _summaries(levels: tuple[LevelMeasurement, ...]) -> tuple[LevelSummary, ...]:
    return tuple(summarise_level(level) for level in settle_levels(levels))
