"""Whether fresh prompts and a fresh launch say the same as the search did.

A setting is confirmed when, on fresh prompts alone and over the mix, it is no more than a tie behind any
other setting measured on them, and, if it speculates, faster than off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spectune.analysis.comparison import TIE_SHARE, LevelFit, SpeedDifference, mean_difference
from spectune.analysis.launches import OFF_ARM, Arm, arm_of
from spectune.analysis.mix import Mix
from spectune.analysis.study_fit import StudyFit
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Failed, Infeasible, Void

Verdict = Literal["confirmed", "not confirmed", "not measured again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedLevel:
    """One level measured again.

    Attributes:
        concurrency: the level.
        output_tps: tokens/s on fresh prompts.
        fresh_over_search: that relative to the search's; None where the search has no such level.
        over_off: relative to off on the same fresh prompts; None for off, or where off was not measured.
    """

    concurrency: int
    output_tps: float
    fresh_over_search: SpeedDifference | None
    over_off: SpeedDifference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What measuring again said of a setting.

    Attributes:
        verdict: in a word.
        levels: by ascending concurrency.
        over_off: mean over the mix relative to off; None for off, or where off was not measured again.
        rival: the fastest other setting on fresh prompts; None where there is none.
        over_rival: mean over the mix relative to it.
        launches: how many fresh launches.
        failure: why it was not measured again although that was tried, "" otherwise.
    """

    verdict: Verdict
    levels: tuple[ConfirmedLevel, ...] = ()
    over_off: SpeedDifference | None = None
    rival: SpecConfig | None = None
    over_rival: SpeedDifference | None = None
    launches: int = 0
    failure: str = ""


def confirm(
    fit: StudyFit, fresh: Mapping[int, LevelFit], own: Arm, mix: Mix, failure: str = ""
) -> Confirmation:
    """What fresh prompts say of an arm.

    Args:
        fit: everything measured.
        fresh: the arms of each level by fresh prompts alone.
        own: the arm in question.
        mix: what it is for.
        failure: of its fresh launch, "" when none went wrong.
    """
    if not all(level in fresh and fresh[level].has(own) for level in mix.weights):
        return Confirmation(verdict="not measured again", failure=failure)
    levels = [fresh[level] for level in sorted(mix.weights)]
    shares = [mix.weights[one.concurrency] for one in levels]
    against = {
        other: found
        for other in dict.fromkeys(arm for one in levels for arm in one.arms)
        if other != own and other.is_setting
        if (found := mean_difference(levels, shares, own, other)) is not None
    }
    rival = min(against, key=lambda other: against[other].ratio, default=None)
    again = tuple(_level(fit, one, own) for one in levels)
    return Confirmation(
        verdict="confirmed" if _is_confirmed(own, against, again) else "not confirmed",
        levels=again,
        over_off=against.get(OFF_ARM),
        rival=None if rival is None else rival.config,
        over_rival=None if rival is None else against[rival],
        launches=len({cell.trial for one in levels for cell in one.cells_of(own)}),
    )


def failure_again(history: StudyHistory, config: SpecConfig) -> str:
    """Why the setting's last fresh launch did not complete; "" when none went wrong."""
    launches = (o for o in reversed(history.outcomes) if o.trial.role == "confirm")
    match next((o for o in launches if arm_of(o.trial) == Arm(config=config)), None):
        case Failed(kind=kind, detail=detail):
            return f"{kind.replace('_', ' ')}: {detail}"
        case Void(reason=reason) | Infeasible(reason=reason):
            return reason
        case _:
            return ""


def _is_confirmed(
    own: Arm, against: Mapping[Arm, SpeedDifference], levels: tuple[ConfirmedLevel, ...]
) -> bool:
    if not against:  # nothing beside it: as fast as it was is all that can be said
        changes = (level.fresh_over_search for level in levels)
        return not any(change is not None and change.is_behind for change in changes)
    is_ahead = all(found.ratio >= 1 - TIE_SHARE for found in against.values())
    pays = own.config.is_off or OFF_ARM not in against or against[OFF_ARM].ratio > 1
    return is_ahead and pays


def _level(fit: StudyFit, fresh: LevelFit, own: Arm) -> ConfirmedLevel:
    whole = fit.levels[fresh.concurrency]
    has_off = fresh.has(OFF_ARM) and own != OFF_ARM
    return ConfirmedLevel(
        concurrency=fresh.concurrency,
        output_tps=fresh.tps(own),
        fresh_over_search=whole.between_parts(own, "fresh", "search") if whole.has(own) else None,
        over_off=fresh.difference(own, OFF_ARM) if has_off else None,
    )
