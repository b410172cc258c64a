"""How few launches can be enough: the cheapest set after which no goal has much left to gain.

A goal that wants a long draft and one that wants a short draft are not served by the compromise that helps
each a little: the two launches that settle both are fewer than the compromise and the same two afterwards.
So sets of launches are looked at, and a set is enough when it leaves every goal at most the tolerance.

Symbols
    S     launches made together
    V_g   value of reading S for goal g (acquisition.py)                   log units, a share of speed
    left  max over g of V_g(everything) − V_g(S)                           log units, a share of speed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Cell
from spectune.perfmodel.posterior import Posterior
from spectune.planning.acquisition import Candidate, values_of
from spectune.planning.goals import Choice, Goal

MAX_TOGETHER = 3  # launches looked at together; what they show decides about more


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSet:
    """Launches made together.

    Attributes:
        candidates: in the order they were given.
        value: share of speed they are expected to gain, mean over goals.
        left: the largest share that any goal may gain by all other launches afterwards.
        cost_s: seconds of all.
    """

    candidates: tuple[Candidate, ...]
    value: float
    left: float
    cost_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookahead:
    """What sets of launches are valued by: draws, goals, what can be settled on, what was measured."""

    posterior: Posterior
    goals: tuple[Goal, ...]
    choices: tuple[Choice, ...]
    known: frozenset[Cell]

    def enough(self, candidates: Sequence[Candidate], tolerance: float) -> LaunchSet | None:
        """The cheapest set that leaves every goal at most the tolerance; equal costs: the most valuable.

        None when no set of up to MAX_TOGETHER is enough, or when nothing is needed.
        """
        everything = self.values(candidates)
        if everything.max(initial=0.0) <= tolerance:
            return None
        sets = [
            self._set_of(members, everything)
            for size in range(1, min(MAX_TOGETHER, len(candidates)) + 1)
            for members in combinations(candidates, size)
        ]
        enough = [found for found in sets if found.left <= tolerance]
        return min(enough, key=lambda found: (found.cost_s, -found.value), default=None)

    def _set_of(self, members: tuple[Candidate, ...], everything: Floats) -> LaunchSet:
        values = self.values(members)
        return LaunchSet(
            candidates=members,
            value=float(values.mean()),
            left=float((everything - values).max()),
            cost_s=sum(member.cost_s for member in members),
        )

    def values(self, members: Sequence[Candidate]) -> Floats:
        """What reading the members gains, [goals]."""
        return values_of(self.posterior, self.goals, self.choices, members, self.known)
