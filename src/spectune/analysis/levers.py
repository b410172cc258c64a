"""What capacity flags tried beside a setting are worth, against the recommended setting without them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from spectune.analysis.comparison import TIE_SHARE, LevelFit, SpeedDifference, mean_difference
from spectune.analysis.launches import Arm, arm_of
from spectune.analysis.mix import Mix
from spectune.analysis.study_fit import StudyFit
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed

LeverVerdict = Literal["better", "not certain", "no gain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverLevel:
    """A setting under a lever at one level.

    Attributes:
        concurrency: the level.
        output_tps: tokens/s.
        vs_recommended: relative to the recommended setting without the lever; None where that has no cell.
    """

    concurrency: int
    output_tps: float
    vs_recommended: SpeedDifference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverAnswer:
    """What became of a lever.

    Attributes:
        config: the setting it was pulled beside.
        lever: flags as on a command line.
        capacity: most requests that ran at once; None where the server does not say.
        levels: by ascending concurrency.
        mean_gain: mean over the mix relative to the recommended setting; None where a level is missing.
        verdict: "better" where the mean's interval lies above a tie and no level is certainly slower.
    """

    config: SpecConfig
    lever: str
    capacity: int | None
    levels: tuple[LeverLevel, ...]
    mean_gain: SpeedDifference | None
    verdict: LeverVerdict


def answer_levers(
    history: StudyHistory, fit: StudyFit, best: SpecConfig, mix: Mix
) -> tuple[LeverAnswer, ...]:
    """One answer for each lever of the search, in order of launch; off at equal limits is none of them."""
    return tuple(
        _answer(arm, capacity, fit, Arm(config=best), mix) for arm, capacity in _searched(history).items()
    )


def _searched(history: StudyHistory) -> dict[Arm, int | None]:
    return {
        arm_of(outcome.trial): outcome.effective.max_running_requests
        for outcome in history.outcomes
        if isinstance(outcome, Completed) and outcome.trial.lever and outcome.trial.is_of_search
    }


def _answer(arm: Arm, capacity: int | None, fit: StudyFit, best: Arm, mix: Mix) -> LeverAnswer:
    levels = tuple(_levels(arm, fit, best))
    fits = [fit.levels[level] for level in sorted(mix.weights) if level in fit.levels]
    gain = None
    if len(fits) == len(mix.weights):
        gain = mean_difference(fits, [mix.weights[one.concurrency] for one in fits], arm, best)
    return LeverAnswer(
        config=arm.config,
        lever=arm.lever,
        capacity=capacity,
        levels=levels,
        mean_gain=gain,
        verdict=_verdict(levels, gain),
    )


def _levels(arm: Arm, fit: StudyFit, best: Arm) -> Iterator[LeverLevel]:
    for level, one in sorted(fit.levels.items()):
        if one.has(arm):
            yield LeverLevel(
                concurrency=level, output_tps=one.tps(arm), vs_recommended=_difference(one, arm, best)
            )


def _difference(fit: LevelFit, arm: Arm, best: Arm) -> SpeedDifference | None:
    return fit.difference(arm, best) if fit.has(best) else None


def _verdict(levels: tuple[LeverLevel, ...], gain: SpeedDifference | None) -> LeverVerdict:
    if gain is None or gain.ratio <= 1 + TIE_SHARE:
        return "no gain"
    loses = any(level.vs_recommended is not None and level.vs_recommended.is_behind for level in levels)
    return "better" if gain.is_ahead and not loses else "not certain"
