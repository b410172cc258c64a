"""Everything a study answers, as one value: the report renders it, nothing is computed after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from spectune.analysis.baselines import Baselines, find_baselines
from spectune.analysis.caveats import Caveat, find_caveats
from spectune.analysis.comparison import LevelFit
from spectune.analysis.crossover import BreakEven, Crossover, find_break_even, find_crossovers
from spectune.analysis.launches import Arm
from spectune.analysis.levers import LeverAnswer, answer_levers
from spectune.analysis.lossless import Lossless, answer_lossless
from spectune.analysis.noise import Noise
from spectune.analysis.recommendation import Recommendation, choose_setting, recommend
from spectune.analysis.refining import whys_wide
from spectune.analysis.schedule_answer import ScheduleAnswer, ScheduleForms, answer_schedule
from spectune.analysis.shortlist import shortlist
from spectune.analysis.study_fit import StudyFit, fit_study
from spectune.analysis.winners import Winner, find_winners
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    Failed,
    Infeasible,
    Trial,
    TrialId,
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
        launch_s: seconds until ready, or until it failed before that; None where it is not known.
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
        downtime_s: about how long a borrowed service was away: launching and measuring, without the waits
            between; 0 where the study starts its own server.
    """

    launches: int
    wall_s: float
    downtime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLevel:
    """What ran, at one level, over all its launches.

    Attributes:
        concurrency: the level.
        output_tps: tokens/s on the search's prompts.
        speedup_over_off: ÷ those of off at its own capacity; None where that was not measured.
        speedup_equal_limits: ÷ those of off at equal limits; None where that was not measured.
        disturbed: whether other processes took part of the machine in any of its launches.
    """

    concurrency: int
    output_tps: float
    speedup_over_off: float | None
    speedup_equal_limits: float | None
    disturbed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmAnswer:
    """What ran: a setting, off with a lever, or a schedule.

    Attributes:
        arm: what its servers were told.
        trials: its launches that count, in order.
        levels: by ascending concurrency, refined ones included.
    """

    arm: Arm
    trials: tuple[TrialId, ...]
    levels: tuple[ArmLevel, ...]


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
        break_even: where the best speculation stops beating off.
        baselines: the trials of off that speedups are told against.
        arms: everything that was measured, in order of its first launch.
        recommendation: None when no setting was measured at every level of the mix.
        schedule: steps by batch size, measured or suggested; None where one setting wins everywhere.
        levers: what capacity flags tried beside a setting are worth.
        lossless: whether speculation changes greedy answers.
        noise: what the study's figures vary by.
        caveats: signs that a figure should not be trusted.
        cost: what it took.
        finished: why the search stopped; "" when it was interrupted.
        whys_wide: (low, high) of each change that is still wide to why it was not narrowed further.
    """

    study: Study
    engine_version: str
    trials: tuple[TrialAnswer, ...]
    unfinished: tuple[UnfinishedAnswer, ...]
    winners: tuple[Winner, ...]
    crossovers: tuple[Crossover, ...]
    break_even: BreakEven
    baselines: Baselines
    arms: tuple[ArmAnswer, ...]
    recommendation: Recommendation | None
    schedule: ScheduleAnswer | None
    levers: tuple[LeverAnswer, ...]
    lossless: Lossless
    noise: Noise
    caveats: tuple[Caveat, ...]
    cost: Cost
    finished: str
    whys_wide: Mapping[tuple[int, int], str]

    def why_wide(self, ends: tuple[int, int]) -> str:
        """Why a change between these levels was not narrowed further; "" for one that is narrow."""
        return self.whys_wide.get(ends, "")

    def equal_limits_speedup(self, winner: Winner) -> float | None:
        """The winner's tokens/s ÷ those of off at equal limits; None where that was not measured."""
        levels = (
            level
            for answer in self.arms
            if answer.arm == Arm(config=winner.config)
            for level in answer.levels
        )
        return next(
            (level.speedup_equal_limits for level in levels if level.concurrency == winner.concurrency), None
        )


def no_forms(_config: SpecConfig, _schedule: Schedule) -> Mapping[str, str]:
    """No engine's text for a schedule."""
    return {}


def answer(
    history: StudyHistory,
    launch_args: Callable[[SpecConfig], tuple[str, ...]],
    schedule_forms: ScheduleForms = no_forms,
) -> StudyAnswers:
    """The study's answers, from raw facts alone.

    Args:
        history: everything that was measured.
        launch_args: the engine's flags for a setting.
        schedule_forms: each engine's own text for a schedule.
    """
    fit = fit_study(history)
    winners = find_winners(fit.levels, history.study.concurrency)
    baselines = find_baselines(history, _that_matter(history, fit, winners))
    chosen = recommend(history, fit, baselines)
    trials = tuple(_trial_answer(outcome) for outcome in history.outcomes)
    crossovers = find_crossovers(winners, fit.levels)
    break_even = find_break_even(history.study.concurrency, fit.levels)
    return StudyAnswers(
        study=history.study,
        engine_version=next((t.effective.engine_version for t in trials if t.effective is not None), ""),
        trials=trials,
        unfinished=tuple(_unfinished_answer(unfinished) for unfinished in history.unfinished),
        winners=winners,
        crossovers=crossovers,
        break_even=break_even,
        baselines=baselines,
        arms=_arms(fit, baselines),
        recommendation=chosen and replace(chosen, launch_args=launch_args(chosen.config)),
        schedule=_schedule(history, fit, chosen, schedule_forms),
        levers=() if chosen is None else answer_levers(history, fit, chosen.config, chosen.mix),
        lossless=answer_lossless(history, fit.measured),
        noise=fit.noise,
        caveats=find_caveats(history, fit.measured),
        cost=Cost(launches=history.launches, wall_s=history.wall_s, downtime_s=_downtime_s(history)),
        finished=history.finished,
        whys_wide=whys_wide(history, crossovers, break_even),
    )


def _that_matter(history: StudyHistory, fit: StudyFit, winners: tuple[Winner, ...]) -> set[SpecConfig]:
    chosen = choose_setting(history.study, fit.levels)
    return {winner.config for winner in winners} | ({chosen.config} if chosen is not None else set())


def _schedule(
    history: StudyHistory, fit: StudyFit, chosen: Recommendation | None, forms: ScheduleForms
) -> ScheduleAnswer | None:
    """The schedule with every engine's own text for it; None where there is nothing to schedule."""
    if chosen is None:
        return None
    found = answer_schedule(history, fit, chosen.config, chosen.mix, shortlist(history))
    return found and replace(found, exported=forms(found.config, found.schedule))


def _arms(fit: StudyFit, baselines: Baselines) -> tuple[ArmAnswer, ...]:
    arms = dict.fromkeys(cell.arm for cell in fit.measured)
    return tuple(
        ArmAnswer(
            arm=arm,
            trials=tuple(dict.fromkeys(cell.trial for cell in fit.measured if cell.arm == arm)),
            levels=tuple(_arm_level(one, arm, baselines) for one in fit.levels.values() if one.has(arm)),
        )
        for arm in arms
    )


def _arm_level(fit: LevelFit, arm: Arm, baselines: Baselines) -> ArmLevel:
    over_off, equal_limits = baselines.speedups(fit, arm)
    return ArmLevel(
        concurrency=fit.concurrency,
        output_tps=fit.tps(arm),
        speedup_over_off=over_off,
        speedup_equal_limits=equal_limits,
        disturbed=any(cell.summary.disturbed for cell in fit.cells_of(arm)),
    )


def _downtime_s(history: StudyHistory) -> float:
    if not history.study.service:
        return 0.0
    launched = [trial for trial in history.outcomes if not isinstance(trial, Infeasible)]
    return sum(
        (trial.launch_s or 0.0) + sum(level.wall_s for level in trial.levels)
        for trial in (*launched, *history.unfinished)
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
