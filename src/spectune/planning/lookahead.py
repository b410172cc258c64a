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

import numpy as np

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Cell
from spectune.perfmodel.posterior import Posterior
from spectune.planning.acquisition import Candidate, value_for
from spectune.planning.goals import Choice, Goal

MAX_TOGETHER = 3  # launches looked at together; what they show decides about more
MAX_CANDIDATES = 10  # the most valuable ones by themselves


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
    """What sets of launches are valued by.

    Attributes:
        posterior: draws of every goal's cells.
        goals: what the search is for.
        choices: what can be settled on, once measured at a goal's levels.
        known: cells measured so far.
        draws: utility of each choice, [draws, choices] for each goal.
    """

    posterior: Posterior
    goals: tuple[Goal, ...]
    choices: tuple[Choice, ...]
    known: frozenset[Cell]
    draws: tuple[Floats, ...]

    def values(self, candidates: Sequence[Candidate]) -> Floats:
        """What measuring the candidates together gains, [goals]."""
        return np.array(
            [
                value_for(self.posterior, (goal, self.choices), draws, candidates, self.known)
                for goal, draws in zip(self.goals, self.draws, strict=True)
            ]
        )

    def enough(self, candidates: Sequence[Candidate], tolerance: float) -> LaunchSet | None:
        """The cheapest set that leaves every goal at most the tolerance; of equal cost the most valuable.

        None when nothing is needed, or when no set of up to MAX_TOGETHER is enough.
        """
        everything = self.values(candidates)
        if everything.max(initial=0.0) <= tolerance:
            return None
        likely = sorted(candidates, key=lambda c: -float(self.values((c,)).mean()))[:MAX_CANDIDATES]
        sets = [
            self._set_of(members, everything)
            for size in range(1, min(MAX_TOGETHER, len(likely)) + 1)
            for members in combinations(likely, size)
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
