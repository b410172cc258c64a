"""When to stop: the answer is certain enough, or the budget is spent. The reason is printed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectune.perfmodel.evidence import Cell
from spectune.perfmodel.posterior import Posterior
from spectune.planning.acquisition import Allowed, expected_losses, readings, value_of_reading
from spectune.planning.goals import Choice, Goal, is_measured, settled, utility

DEFAULT_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a study.

    Attributes:
        tolerance: share of speed that may be lost against the best.
        max_launches: launches at most.
        max_downtime_s: seconds of restarting and measuring at most.
        min_launches: launches that the seconds do not cut off; the number of launches still may.
    """

    tolerance: float = DEFAULT_TOLERANCE
    max_launches: float = float("inf")
    max_downtime_s: float = float("inf")
    min_launches: int = 0

    def has_room(self, launches: float, downtime_s: float) -> bool:
        """Whether another launch may be made after so many that took so long."""
        has_time = downtime_s < self.max_downtime_s or launches < self.min_launches
        return launches < self.max_launches and has_time

    def without(self, launches: int, downtime_s: float) -> "Budget":
        """What is left beside so many launches that took so long."""
        return replace(
            self,
            max_launches=max(self.max_launches - launches, 0),
            max_downtime_s=max(self.max_downtime_s - downtime_s, 0.0),
        )

    @property
    def is_limited(self) -> bool:
        """Whether a search may end before it is certain; each launch then measures every level."""
        return self.max_launches < float("inf") or self.max_downtime_s < float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGoal:
    """A goal as it stands. Losses are shares of speed.

    Attributes:
        goal: the question.
        best: choice with the highest expected utility.
        best_measured: the same among measured choices.
        loss: expected loss of settling on `best_measured`: E[max_k U_k] − E[U_best_measured].
        open_loss: the part that launching all others would remove: E[max_k U_k] − E[max_measured U_k], or
            the value of reading them all where noise makes that less; the rest lies between settings that
            are too close to tell apart.
        rivals: unmeasured choices, largest expected gain over the measured ones first.
        gains: what each rival is expected to gain over the measured ones, as they stand in `rivals`.
    """

    goal: Goal
    best: Choice
    best_measured: Choice
    loss: float
    open_loss: float
    rivals: tuple[Choice, ...]
    gains: tuple[float, ...] = ()

    def gain_of(self, choice: Choice) -> float:
        """Expected gain of a rival; 0 for a measured choice."""
        return dict(zip(self.rivals, self.gains, strict=False)).get(choice, 0.0)


def stand_of(posterior: Posterior, goal: Goal, choices: Sequence[Choice], cells: frozenset[Cell]) -> OpenGoal:
    """How far a goal is from its answer, with these cells measured.

    At levels that no choice was measured at, the likeliest one stands in and all others are open.
    """
    draws = utility(posterior, goal, choices)
    losses = expected_losses(posterior, goal, choices)
    known = list(settled(goal, choices, cells))
    if not is_measured(goal, cells):  # nothing to settle on but a prediction: that of the likeliest
        known = [min(known, key=lambda i: float(losses[i]))]
    open_ = [i for i in range(len(choices)) if i not in known]
    peak = draws[:, known].max(axis=1)
    gains = {i: float(np.maximum(draws[:, i] - peak, 0.0).mean()) for i in open_}
    read = readings(posterior, [choices[i] for i in open_], goal.concurrency)
    allowed = Allowed(now=tuple(known), after=tuple(range(len(choices))))
    order = sorted(open_, key=lambda i: -gains[i])
    best_measured = min(known, key=lambda i: float(losses[i]))
    return OpenGoal(
        goal=goal,
        best=choices[int(np.argmin(losses))],
        best_measured=choices[best_measured],
        loss=float(losses[best_measured]),
        open_loss=min(float((draws.max(axis=1) - peak).mean()), value_of_reading(draws, read, allowed)),
        rivals=tuple(choices[i] for i in order),
        gains=tuple(gains[i] for i in order),
    )


def reason_to_stop(goals: Sequence[OpenGoal], budget: Budget, launches: int, downtime_s: float) -> str:
    """Why to stop, or "" to go on."""
    worst = max(goals, key=lambda g: g.open_loss)
    bound = f"expected loss {max(g.loss for g in goals):.1%} at most"
    if worst.open_loss <= budget.tolerance:
        gain = f"{max(worst.open_loss, 0.0):.1%} ({worst.goal.name})"
        return (
            f"other settings are expected to gain at most {gain}, tolerance {budget.tolerance:.1%}; {bound}"
        )
    if launches >= budget.max_launches:
        return f"{launches} launches were allowed and made; {bound}"
    if not budget.has_room(launches, downtime_s):
        return f"{budget.max_downtime_s:.0f} s of downtime were allowed and used; {bound}"
    if not any(g.rivals for g in goals):
        return f"every setting was measured; {bound}"
    return ""
