"""When to stop: the answer is certain enough, or the budget is spent. The reason is printed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.perfmodel.posterior import Posterior
from spectune.planning.acquisition import expected_losses
from spectune.planning.goals import Choice, Goal

DEFAULT_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a study.

    Attributes:
        tolerance: share of speed that may be lost against the best.
        max_launches: launches at most.
        max_downtime_s: seconds of restarting and measuring at most.
    """

    tolerance: float = DEFAULT_TOLERANCE
    max_launches: float = float("inf")
    max_downtime_s: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGoal:
    """A goal as it stands.

    Attributes:
        goal: the question.
        best: choice with the highest expected utility.
        best_measured: the same among measured choices.
        loss: expected share of speed lost by settling on `best_measured`.
        rivals: unmeasured choices, the likeliest to be better first.
    """

    goal: Goal
    best: Choice
    best_measured: Choice
    loss: float
    rivals: tuple[Choice, ...]


def stand_of(
    posterior: Posterior, goal: Goal, choices: Sequence[Choice], measured: frozenset[Choice]
) -> OpenGoal:
    """How far a goal is from its answer."""
    losses = expected_losses(posterior, goal, choices)
    order = np.argsort(losses, kind="stable")
    known = [choices[i] for i in order if choices[i] in measured]
    return OpenGoal(
        goal=goal,
        best=choices[order[0]],
        best_measured=known[0],
        loss=float(losses[choices.index(known[0])]),
        rivals=tuple(choices[i] for i in order if choices[i] not in measured),
    )


def reason_to_stop(goals: Sequence[OpenGoal], budget: Budget, launches: int, downtime_s: float) -> str:
    """Why to stop, or "" to go on."""
    worst = max(goals, key=lambda g: g.loss)
    bound = f"expected loss at most {worst.loss:.1%} ({worst.goal.name})"
    if worst.loss <= budget.tolerance:
        return (
            f"the best measured setting of every goal is within {budget.tolerance:.1%} of the best: {bound}"
        )
    if launches >= budget.max_launches:
        return f"{launches} launches were allowed and made; {bound}"
    if downtime_s >= budget.max_downtime_s:
        return f"{budget.max_downtime_s:.0f} s of downtime were allowed and used; {bound}"
    if not any(g.rivals for g in goals):
        return f"every setting was measured; {bound}"
    return ""
