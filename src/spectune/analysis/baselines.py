"""The two baselines: off at the limits speculation leaves, and off at the capacity it has alone.

Speculation takes memory, so off alone may run more sequences at once. Off at equal limits tells what
speculation does; off at its own capacity tells what one would run instead. Where the capacity of no
setting that matters (a winner, the recommended one) binds at any level, they are the same trial. Limited off
has the limits of one setting: one that runs more at once is not set against it, its limits are not equal.
"""

from collections.abc import Collection
from dataclasses import dataclass

from spectune.analysis.comparison import LevelFit
from spectune.analysis.launches import OFF_ARM, Arm, arm_of
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, TrialId


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """Off, twice.

    Attributes:
        equal_limits: the trial of off at equal limits; None where it was not measured, or limits are unknown.
        own_capacity: the trial of off as it would be run; None where it was not measured.
        limited: the arm that ran at equal limits; None where that is plain off, or nothing.
        limit: requests that arm runs at once; None without it, or where its server did not say.
        limit_of: settings whose own capacity that is.
        within: arms that run no more at once than that: only they are set against it.
    """

    equal_limits: TrialId | None
    own_capacity: TrialId | None
    limited: Arm | None
    limit: int | None = None
    limit_of: tuple[SpecConfig, ...] = ()
    within: frozenset[Arm] = frozenset()

    def equal_arm(self, fit: LevelFit, arm: Arm) -> Arm | None:
        """What an arm is set against for equal limits at a level; None for off, or where nothing is equal."""
        if arm.config.is_off:
            return None
        if self.limited is not None:
            return self.limited if arm in self.within and fit.has(self.limited) else None
        return OFF_ARM if self.equal_limits is not None and fit.has(OFF_ARM) else None

    def speedups(self, fit: LevelFit, arm: Arm) -> tuple[float | None, float | None]:
        """The arm's tokens/s ÷ those of off at its own capacity, and ÷ those of off at equal limits."""
        equal = self.equal_arm(fit, arm)
        return (
            fit.tps(arm) / fit.tps(OFF_ARM) if fit.has(OFF_ARM) else None,
            None if equal is None else fit.tps(arm) / fit.tps(equal),
        )


def find_baselines(history: StudyHistory, settings: Collection[SpecConfig]) -> Baselines:
    """The baselines among what was measured.

    Args:
        history: everything that was measured.
        settings: the settings that matter, whose capacity may bind.
    """
    done = [outcome for outcome in history.outcomes if isinstance(outcome, Completed)]
    plain = next((outcome for outcome in done if arm_of(outcome.trial) == OFF_ARM), None)
    limited = next((o for o in done if o.trial.config.is_off and o.trial.lever), None)
    if limited is not None:
        equal: TrialId | None = limited.trial.id
    elif plain is not None and not _is_limited(done, settings, max(history.study.concurrency)):
        equal = plain.trial.id
    else:
        equal = None
    limit = None if limited is None else limited.effective.max_running_requests
    capacity = _capacities(done)
    return Baselines(
        equal_limits=equal,
        own_capacity=None if plain is None else plain.trial.id,
        limited=None if limited is None else arm_of(limited.trial),
        limit=limit,
        limit_of=tuple(a.config for a, own in capacity.items() if a.is_setting and own == limit),
        within=frozenset(arm for arm, own in capacity.items() if limit is not None and own <= limit),
    )


def _capacities(done: list[Completed]) -> dict[Arm, int]:
    """Most requests each speculating arm runs at once, by its first launch, where its server said so."""
    return {
        arm_of(outcome.trial): outcome.effective.max_running_requests
        for outcome in reversed(done)
        if not outcome.trial.config.is_off and outcome.effective.max_running_requests is not None
    }


def _is_limited(done: list[Completed], settings: Collection[SpecConfig], highest: int) -> bool:
    """Whether off or one of these settings runs, or may run, fewer at once than some level asks for."""
    limits = [
        o.effective.max_running_requests
        for o in done
        if arm_of(o.trial) == OFF_ARM or (arm_of(o.trial).is_setting and o.trial.config in settings)
    ]
    return any(limit is None or limit < highest for limit in limits)
