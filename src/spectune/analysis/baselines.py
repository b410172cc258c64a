"""The two baselines: off at the limits speculation leaves, and off at the capacity it has alone.

Speculation takes memory, so off alone may run more sequences at once. Off at equal limits tells what
speculation does; off at its own capacity tells what one would run instead. Where the capacity of no
setting that matters (a winner, the recommended one) binds at any level, they are the same trial.
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
    """

    equal_limits: TrialId | None
    own_capacity: TrialId | None
    limited: Arm | None

    def equal_arm(self, fit: LevelFit) -> Arm | None:
        """What a setting is set against for equal limits at a level; None where nothing was measured."""
        if self.limited is not None:
            return self.limited if fit.has(self.limited) else None
        return OFF_ARM if self.equal_limits is not None and fit.has(OFF_ARM) else None

    def speedups(self, fit: LevelFit, arm: Arm) -> tuple[float | None, float | None]:
        """The arm's tokens/s ÷ those of off at its own capacity, and ÷ those of off at equal limits."""
        equal = self.equal_arm(fit)
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
    return Baselines(
        equal_limits=equal,
        own_capacity=None if plain is None else plain.trial.id,
        limited=None if limited is None else arm_of(limited.trial),
    )


def _is_limited(done: list[Completed], settings: Collection[SpecConfig], highest: int) -> bool:
    """Whether off or one of these settings runs, or may run, fewer at once than some level asks for."""
    limits = [
        o.effective.max_running_requests
        for o in done
        if arm_of(o.trial) == OFF_ARM or (arm_of(o.trial).is_setting and o.trial.config in settings)
    ]
    return any(limit is None or limit < highest for limit in limits)
