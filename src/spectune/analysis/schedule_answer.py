"""Whether steps by batch size beat one fixed setting. A schedule is measured before it is recommended.

The rule, against off and against the recommended fixed setting, on fresh prompts, at every level and on the
load that goes up and down:

- it loses where the 95 % interval of a difference lies below a tie at any of them;
- it loses where its mean over the mix is not more than 1 % above the fixed setting's: what is no faster is
  not worth the moving part;
- it is not measured unless it ran at every level of the mix, and on the ramp where others did;
- else it is recommended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from spectune.analysis.comparison import TIE_SHARE, LevelFit, SpeedDifference, mean_difference
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.mix import Mix, losses
from spectune.analysis.study_fit import StudyFit
from spectune.domain.schedule import Schedule
from spectune.domain.shortlist import Shortlist
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, Failed, Infeasible

ScheduleForms = Callable[[SpecConfig, Schedule], Mapping[str, str]]
"""Each engine's own text for a schedule, by engine; given the chain with the most steps."""
ScheduleVerdict = Literal["recommended", "loses", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLevel:
    """The schedule at one level, or on the ramp up to it.

    Attributes:
        concurrency: the level, or the ramp's peak.
        is_ramp: whether the load went up and down.
        output_tps: tokens/s.
        output_tps_ci: its interval within the launch; None where unknown.
        vs_off: relative to off; None where off has no such cell.
        vs_best_fixed: relative to the recommended fixed setting; None where that has no such cell.
    """

    concurrency: int
    is_ramp: bool
    output_tps: float
    output_tps_ci: tuple[float, float] | None
    vs_off: SpeedDifference | None
    vs_best_fixed: SpeedDifference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLoss:
    """A place where the schedule is certainly slower than what it is set against."""

    level: ScheduleLevel
    to: SpecConfig
    difference: SpeedDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAnswer:
    """What became of the schedule.

    Attributes:
        schedule: steps by batch size.
        config: the chain with its most steps.
        exported: each engine's own text for it, by engine.
        measured: by ascending level, ramps last.
        mean_gain: mean over the mix relative to the best fixed setting; None where it is not known.
        losses: (level, share of the best fixed setting's speed there that it loses).
        verdict: in a word.
        best_fixed: the recommended fixed setting.
        loss: where it is certainly slower; None where it is nowhere.
        failure: what became of its launch, "" when nothing went wrong.
        is_started: whether a server was started with a schedule, however it ended.
    """

    schedule: Schedule
    config: SpecConfig
    exported: Mapping[str, str]
    measured: tuple[ScheduleLevel, ...]
    mean_gain: SpeedDifference | None
    losses: tuple[tuple[int, float], ...]
    verdict: ScheduleVerdict
    best_fixed: SpecConfig
    loss: ScheduleLoss | None
    failure: str
    is_started: bool


def answer_schedule(
    history: StudyHistory, fit: StudyFit, best: SpecConfig, mix: Mix, found: Shortlist
) -> ScheduleAnswer | None:
    """The schedule that was measured, else the finalists' own; None where there is none.

    Texts of engines are still empty.
    """
    arm = _measured_arm(fit)
    schedule = found.schedule if arm is None else arm.schedule
    config = found.schedule_config if arm is None else arm.config
    if schedule is None or config is None:
        return None
    fixed = Arm(config=best)
    fresh = fit.of_parts(["fresh"])
    levels = [fresh[c] for c in sorted(mix.weights) if c in fresh]
    measured = () if arm is None else tuple(_cells(fit, fresh, arm, fixed))
    gain = None
    if arm is not None and len(levels) == len(mix.weights):
        gain = mean_difference(levels, [mix.weights[one.concurrency] for one in levels], arm, fixed)
    loss = _loss(measured, best)
    return ScheduleAnswer(
        schedule=schedule,
        config=config,
        exported={},
        measured=measured,
        mean_gain=gain,
        losses=() if arm is None else losses(fit.levels, arm, history.study.concurrency),
        verdict=_verdict(measured, gain, loss),
        best_fixed=best,
        loss=loss,
        failure=_failure(history),
        is_started=_is_started(history),
    )


def _measured_arm(fit: StudyFit) -> Arm | None:
    """The schedule with the most cells."""
    cells = [cell for level in fit.levels.values() for cell in level.level.cells]
    arms = [cell.arm for cell in cells if cell.arm.schedule is not None]
    return max(arms, key=arms.count, default=None)


def _cells(fit: StudyFit, fresh: Mapping[int, LevelFit], arm: Arm, fixed: Arm) -> list[ScheduleLevel]:
    levels = [_cell(one, arm, fixed, is_ramp=False) for _, one in sorted(fresh.items()) if one.has(arm)]
    loads = [_cell(one, arm, fixed, is_ramp=True) for _, one in sorted(fit.ramps.items()) if one.has(arm)]
    return levels + loads


def _cell(fit: LevelFit, arm: Arm, fixed: Arm, *, is_ramp: bool) -> ScheduleLevel:
    summary = fit.summary(arm)
    return ScheduleLevel(
        concurrency=fit.concurrency,
        is_ramp=is_ramp,
        output_tps=fit.tps(arm),
        output_tps_ci=summary.output_tps_ci if len(fit.cells_of(arm)) == 1 else None,
        vs_off=fit.difference(arm, OFF_ARM) if fit.has(OFF_ARM) else None,
        vs_best_fixed=fit.difference(arm, fixed) if fit.has(fixed) else None,
    )


def _failure(history: StudyHistory) -> str:
    """What became of the schedule's own trial when it did not complete."""
    for outcome in history.outcomes:
        if outcome.trial.schedule is not None and not isinstance(outcome, Completed):
            return outcome.detail if isinstance(outcome, Failed) else outcome.reason
    return ""


def _is_started(history: StudyHistory) -> bool:
    launched = (outcome.trial for outcome in history.outcomes if not isinstance(outcome, Infeasible))
    cut_off = (trial.trial for trial in history.unfinished)
    return any(trial.schedule is not None for trial in (*launched, *cut_off))


def _loss(measured: tuple[ScheduleLevel, ...], best: SpecConfig) -> ScheduleLoss | None:
    """The first place where it is certainly slower than the best fixed setting or off."""
    for cell in measured:
        for found, config in ((cell.vs_best_fixed, best), (cell.vs_off, OFF)):
            if found is not None and found.is_behind:
                return ScheduleLoss(level=cell, to=config, difference=found)
    return None


def _verdict(
    measured: tuple[ScheduleLevel, ...], gain: SpeedDifference | None, loss: ScheduleLoss | None
) -> ScheduleVerdict:
    if not measured:
        return "not measured"
    if loss is not None:
        return "loses"
    if gain is None:
        return "not measured"
    return "recommended" if gain.ratio > 1 + TIE_SHARE else "loses"
