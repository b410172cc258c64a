"""Decides the next launch from evidence: opening, far end, value per second, and the reason to stop.

Used by the planner of real studies and by the replays in benchmarks/planner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spectune.perfmodel.evidence import Cell, Evidence
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import Prior
from spectune.planning.acquisition import Candidate, Worth, chance_to_win
from spectune.planning.candidates import far_end, opening
from spectune.planning.goals import Choice, Goal, cells_of, utility
from spectune.planning.levels import first_levels, worthwhile
from spectune.planning.lookahead import Lookahead
from spectune.planning.stopping import Budget, OpenGoal, reason_to_stop, stand_of

NUM_DRAWS = 320
CONFIRM_VALUE = 0.001  # below this no launch is worth more than another: the likeliest winner goes first
RULED_OUT = 0.05  # chance to be the best below which the shortest draft need not span the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A search as it stands.

    Attributes:
        evidence: all that was measured.
        choices: what may be launched and has not failed.
        measured: choices with measured cells.
        launched: every choice launched, failed ones too, in order.
        goals: what it is for.
        missing: levels at which a measured choice was not tried, where there are any.
        tried: cells that were measured without a usable figure; measuring them again would be no better.
        num_launches: launches made, repeats too; 0 counts `launched`.
        costs: seconds of a restart, seconds of measuring one level.
        downtime_s: seconds spent.
        needs_off: whether off is measured even if it cannot win: the baseline.
    """

    evidence: Evidence
    choices: tuple[Choice, ...]
    measured: frozenset[Choice]
    launched: tuple[Choice, ...]
    goals: tuple[Goal, ...]
    missing: Mapping[Choice, tuple[int, ...]] = field(default_factory=dict)
    tried: frozenset[Cell] = frozenset()
    num_launches: int = 0
    costs: tuple[float, float] = (300.0, 60.0)
    downtime_s: float = 0.0
    needs_off: bool = False

    @property
    def launches(self) -> int:
        """Launches made."""
        return self.num_launches or len(self.launched)

    @property
    def known(self) -> frozenset[Cell]:
        """Cells that need no further launch."""
        return self.tried.union(row.cell for row in self.evidence.speeds)

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels of all goals, ascending."""
        return tuple(sorted({level for goal in self.goals for level in goal.concurrency}))

    @property
    def waiting(self) -> tuple[Choice, ...]:
        """Choices never launched."""
        return tuple(choice for choice in self.choices if choice not in self.launched)

    @property
    def baseline(self) -> Choice | None:
        """Off, where it has to be launched yet."""
        return next((c for c in self.waiting if c.setting.is_off and self.needs_off), None)

    def has_room(self, budget: Budget) -> bool:
        """Whether the budget allows another launch."""
        return budget.has_room(self.launches, self.downtime_s)

    def is_last(self, budget: Budget) -> bool:
        """Whether the budget allows one more launch and hardly a second."""
        restart_s, level_s = self.costs
        launch_s = restart_s + level_s * len(self.levels)
        is_late = self.downtime_s + 2 * launch_s > budget.max_downtime_s
        return self.launches + 2 > budget.max_launches or (
            is_late and self.launches + 2 > budget.min_launches
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Launch this next, because.

    Attributes:
        choice: what to launch.
        levels: what to measure, ascending.
        why: the reason, for the user.
        is_for_baseline: the search has its answer; off is launched only because it is the baseline.
    """

    choice: Choice
    levels: tuple[int, ...]
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
    waiting = situation.waiting
    if not situation.measured and (not waiting or not situation.has_room(budget)):
        return Finished(reason=f"none of the {len(situation.launched)} launched settings could be measured")
    off = situation.baseline
    if off is not None and situation.measured and situation.has_room(budget) and situation.is_last(budget):
        why = "the baseline without speculation, while the budget allows a launch"
        return Launch(choice=off, levels=situation.levels, why=why, is_for_baseline=True)
    levels = situation.levels
    if not budget.is_limited:
        levels = first_levels(levels, situation.costs if situation.measured else None)
    first = opening(situation.choices, situation.launched, situation.measured)
    if first is not None and situation.has_room(budget):
        return Launch(choice=first, levels=levels, why="the longest draft, which shows most of all others")
    if not situation.measured:
        return Launch(choice=waiting[0], levels=levels, why="nothing could be measured yet")
    posterior = draw(situation, prior, rng)
    far = _far_end(situation, posterior, levels) if situation.has_room(budget) else None
    return far or _next_or_stop(situation, posterior, budget)


def _far_end(situation: Situation, posterior: Posterior, levels: tuple[int, ...]) -> Launch | None:
    """The shortest draft second, but where there is one goal only and the first launch rules it out.

    Several goals have several answers, and the two ends tell where they lie; one goal has one.
    """
    far = far_end(situation.choices, situation.launched, situation.measured)
    if far is None:
        return None
    if len(situation.goals) == 1:
        (goal,) = situation.goals
        if chance_to_win(posterior, goal, situation.choices, far) < RULED_OUT:
            return None
    return Launch(choice=far, levels=levels, why="the shortest draft, so that the model spans all others")


def _tolerance(budget: Budget) -> float:
    """Share of speed below which no launch is called for."""
    return max(budget.tolerance, CONFIRM_VALUE)


def _next_or_stop(situation: Situation, posterior: Posterior, budget: Budget) -> Launch | Finished:
    stands = stands_of(situation, posterior)
    reason = reason_to_stop(stands, budget, situation.launches, situation.downtime_s)
    candidates = _candidates(situation)
    if not reason and candidates:
        return _best_launch(situation, posterior, candidates, stands, budget)
    if situation.has_room(budget):
        off = situation.baseline
        if reason and off is not None:
            why = "the baseline without speculation"
            return Launch(choice=off, levels=situation.levels, why=why, is_for_baseline=True)
        rest = _completion(situation, posterior, budget.tolerance)
        if rest is not None:
            return rest
    return Finished(reason=reason or "every setting was launched")


def stands_of(situation: Situation, posterior: Posterior) -> tuple[OpenGoal, ...]:
    """Every goal as it stands."""
    return tuple(stand_of(posterior, g, situation.choices, situation.known) for g in situation.goals)


def draw(situation: Situation, prior: Prior, rng: np.random.Generator) -> Posterior:
    """Draws of every goal's cells; chance that is a cell's own counts only where it was measured."""
    return sample(
        situation.evidence,
        cells_of(situation.goals, situation.choices),
        prior=prior,
        rng=rng,
        num_draws=NUM_DRAWS,
        chance="seen",
    )


def rank(ahead: Lookahead, candidates: Sequence[Candidate]) -> tuple[Worth, ...]:
    """Candidates by value per second, best first; ties to fewer steps."""
    worths = [Worth(candidate=c, value=float(ahead.values((c,)).mean())) for c in candidates]
    return tuple(sorted(worths, key=lambda w: (-w.rate, w.candidate.choice.setting)))


def _best_launch(
    situation: Situation,
    posterior: Posterior,
    candidates: Sequence[Candidate],
    stands: Sequence[OpenGoal],
    budget: Budget,
) -> Launch:
    """The most valuable of the fewest that are enough; off when it gains more, as its launch costs nothing.

    Off is launched in any case, so it is no part of what is enough; the launch that gains most goes first.
    """
    ahead = Lookahead(
        posterior=posterior,
        goals=situation.goals,
        choices=situation.choices,
        known=situation.known,
        draws=tuple(utility(posterior, goal, situation.choices) for goal in situation.goals),
    )
    free = [c for c in candidates if situation.needs_off and c.choice.setting.is_off]
    paid = [c for c in candidates if c not in free] or candidates
    enough = ahead.enough(paid, _tolerance(budget))
    best = rank(ahead, enough.candidates if enough else paid)[0]
    gains = ahead.values(free) if free else np.zeros(1)
    if float(gains.max()) > _tolerance(budget) and float(gains.mean()) >= best.value:
        why = f"the baseline, which is launched in any case and may gain {float(gains.max()):.1%}"
        return Launch(choice=free[0].choice, levels=situation.levels, why=why)
    if best.value < CONFIRM_VALUE:
        unsure = max(stands, key=lambda s: s.open_loss)
        open_ = [c for rival in unsure.rivals for c in paid if c.choice == rival] or [best.candidate]
        why = f"to confirm the best setting of {unsure.goal.name}"
        return _launch(ahead, situation, open_[0], why, is_all=budget.is_limited)
    why = f"expected to gain {best.value:.1%}, the most per second of downtime"
    if enough and len(enough.candidates) > 1:
        why += f" of {len(enough.candidates)} launches that may be enough"
    return _launch(ahead, situation, best.candidate, why, is_all=budget.is_limited)


def _launch(
    ahead: Lookahead, situation: Situation, candidate: Candidate, why: str, *, is_all: bool
) -> Launch:
    """The candidate at those of its levels that are worth their seconds, or at all of them."""
    if is_all:
        return Launch(choice=candidate.choice, levels=candidate.concurrency, why=why)
    values = ahead.values((candidate,))
    by_level = np.array(
        [
            sum(
                value / len(goal.concurrency)
                for goal, value in zip(situation.goals, values, strict=True)
                if level in goal.concurrency
            )
            for level in candidate.concurrency
        ]
    )
    levels = worthwhile(candidate.concurrency, by_level, situation.costs)
    return Launch(choice=candidate.choice, levels=levels, why=why)


def _completion(situation: Situation, posterior: Posterior, tolerance: float) -> Launch | None:
    """The setting that is best over all goals at the levels it lacks, if it lacks some.

    Only a setting with every level is recommended; one that is within the tolerance of the best will do.
    """
    measured = [i for i, choice in enumerate(situation.choices) if choice in situation.measured]
    if not measured:
        return None
    logs = np.mean([utility(posterior, g, situation.choices).mean(axis=0) for g in situation.goals], axis=0)
    best = max(measured, key=lambda i: float(logs[i]))
    near = [i for i in measured if logs[i] >= logs[best] - max(tolerance, 0.0)]
    if any(situation.choices[i] not in situation.missing for i in near):
        return None
    choice = situation.choices[best]
    why = "the likeliest best setting over all, at the levels it was not measured at"
    return Launch(choice=choice, levels=situation.missing[choice], why=why)


def _candidates(situation: Situation) -> list[Candidate]:
    """Everything that may be launched: what never was, at every level, and the rest of what was."""
    restart_s, bench_s = situation.costs
    wanted = [(choice, situation.levels) for choice in situation.waiting]
    wanted += [(c, situation.missing[c]) for c in situation.choices if c in situation.missing]
    return [
        Candidate(choice=c, concurrency=levels, restart_s=restart_s, bench_s=bench_s * len(levels))
        for c, levels in wanted
    ]
