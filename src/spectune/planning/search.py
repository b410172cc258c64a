"""Decides the next launch from evidence: opening, then value per second, then the reason to stop.

Used by the planner of real studies and by the replays in benchmarks/planner.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.perfmodel.evidence import Evidence
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import Prior
from spectune.planning.acquisition import Candidate, Worth, worth_of
from spectune.planning.candidates import opening
from spectune.planning.goals import Choice, Goal, cells_of
from spectune.planning.lookahead import Lookahead
from spectune.planning.stopping import Budget, OpenGoal, reason_to_stop, stand_of

NUM_DRAWS = 320
CONFIRM_VALUE = 0.001  # below this no launch is worth more than another: the likeliest winner goes first


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A search as it stands.

    Attributes:
        evidence: all that was measured.
        choices: what may be launched and has not failed.
        measured: choices with measured cells.
        launched: every choice launched, failed ones too, in order.
        goals: what it is for.
        costs: seconds of a restart, seconds of measuring one level.
        downtime_s: seconds spent.
        needs_off: whether off is measured even if it cannot win: the baseline.
    """

    evidence: Evidence
    choices: tuple[Choice, ...]
    measured: frozenset[Choice]
    launched: tuple[Choice, ...]
    goals: tuple[Goal, ...]
    costs: tuple[float, float] = (300.0, 60.0)
    downtime_s: float = 0.0
    needs_off: bool = False

    def has_room(self, budget: Budget) -> bool:
        """Whether the budget allows another launch."""
        return len(self.launched) < budget.max_launches and self.downtime_s < budget.max_downtime_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Launch this next, because.

    Attributes:
        choice: what to launch.
        why: the reason, for the user.
        is_for_baseline: the search has its answer; off is launched only because it is the baseline.
    """

    choice: Choice
    why: str
    is_for_baseline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Nothing more to launch, because."""

    reason: str


def decide(
    situation: Situation, *, prior: Prior, budget: Budget, rng: np.random.Generator
) -> Launch | Finished:
    """The next launch or the end."""
    waiting = [c for c in situation.choices if c not in situation.launched]
    if not situation.measured and (not waiting or not situation.has_room(budget)):
        return Finished(reason=f"none of the {len(situation.launched)} launched settings could be measured")
    first = opening(situation.choices, situation.launched, situation.measured)
    if first is not None and situation.has_room(budget):
        end = "shortest" if situation.measured else "longest"
        return Launch(choice=first, why=f"the {end} draft, so that the model spans all others")
    if not situation.measured:
        return Launch(choice=waiting[0], why="nothing could be measured yet")
    posterior = sample(
        situation.evidence,
        cells_of(situation.goals, situation.choices),
        prior=prior,
        rng=rng,
        num_draws=NUM_DRAWS,
        chance="seen",
    )
    return _next_or_stop(situation, posterior, waiting, budget)


def _next_or_stop(
    situation: Situation, posterior: Posterior, waiting: Sequence[Choice], budget: Budget
) -> Launch | Finished:
    known = frozenset(row.cell for row in situation.evidence.speeds)
    stands = [stand_of(posterior, g, situation.choices, known) for g in situation.goals]
    reason = reason_to_stop(stands, budget, len(situation.launched), situation.downtime_s)
    off = next((c for c in waiting if c.setting.is_off), None)
    if reason and off is not None and situation.needs_off and situation.has_room(budget):
        return Launch(choice=off, why="the baseline without speculation", is_for_baseline=True)
    if reason or not waiting:
        return Finished(reason=reason or "every setting was launched")
    return _best_launch(situation, posterior, waiting, stands, max(budget.tolerance, CONFIRM_VALUE))


def rank(situation: Situation, posterior: Posterior, candidates: Sequence[Candidate]) -> tuple[Worth, ...]:
    """Candidates by value per second, best first; ties to fewer steps."""
    known = frozenset(row.cell for row in situation.evidence.speeds)
    worths = [worth_of(posterior, situation.goals, situation.choices, c, known) for c in candidates]
    return tuple(sorted(worths, key=lambda w: (-w.rate, w.candidate.choice.setting)))


def _best_launch(
    situation: Situation,
    posterior: Posterior,
    waiting: Sequence[Choice],
    stands: Sequence[OpenGoal],
    tolerance: float,
) -> Launch:
    """Off first where it may win, as it is launched in any case; then from the smallest set that is enough."""
    candidates = _candidates(situation, waiting)
    free = [c for c in candidates if situation.needs_off and c.choice.setting.is_off]
    ahead = Lookahead(
        posterior=posterior,
        goals=situation.goals,
        choices=situation.choices,
        known=frozenset(row.cell for row in situation.evidence.speeds),
    )
    for candidate in free:
        gain = ahead.values((candidate,)).max()
        if gain > tolerance:
            return Launch(
                choice=candidate.choice, why=f"the baseline, which may be faster by {gain:.1%}"
            )
    paid = [c for c in candidates if c not in free] or candidates
    enough = ahead.enough(paid, tolerance)
    ranked = rank(situation, posterior, enough.candidates if enough else paid)
    best = ranked[0]
    if best.value < CONFIRM_VALUE:
        unsure = max(stands, key=lambda s: s.open_loss)
        rival = unsure.rivals[0] if unsure.rivals else best.candidate.choice
        return Launch(choice=rival, why=f"to confirm the best setting of {unsure.goal.name}")
    together = f", one of {len(enough.candidates)} that are enough" if enough else ""
    return Launch(
        choice=best.candidate.choice,
        why=f"expected to gain {best.value:.1%}, the most per second of downtime{together}",
    )


def _candidates(situation: Situation, waiting: Sequence[Choice]) -> list[Candidate]:
    levels = tuple(sorted({level for g in situation.goals for level in g.concurrency}))
    restart_s, bench_s = situation.costs
    return [
        Candidate(choice=c, concurrency=levels, restart_s=restart_s, bench_s=bench_s * len(levels))
        for c in waiting
    ]
