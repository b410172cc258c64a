"""What trials cost: launches and seconds in which the server did nothing else."""

from collections.abc import Iterable

from spectune.domain.trial import Completed, Failed, Infeasible, TrialOutcome, Void


def num_launches(outcomes: Iterable[TrialOutcome]) -> int:
    """Trials that started a server."""
    return sum(not isinstance(outcome, Infeasible) for outcome in outcomes)


def downtime_s(outcomes: Iterable[TrialOutcome]) -> float:
    """Seconds of launching and measuring; older versions recorded none of a launch that never got ready."""
    return sum(
        (outcome.launch_s or 0.0) + sum(level.wall_s for level in outcome.levels)
        for outcome in outcomes
        if isinstance(outcome, Completed | Failed | Void)
    )
