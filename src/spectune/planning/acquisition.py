"""What a measurement is worth: the loss it is expected to remove, per second it costs.

Symbols
    U    utility of each choice                                    [draws, choices]
    M    what measuring the cells would read                       [draws, cells]
    G    regression of U on M over the draws                       [choices, cells]
    V    E[max_k' E(U_k' | M)] − max_k E(U_k), never below 0       log units, a share of speed
         k over measured choices, k' over those and the newly read: a prediction is never settled on

Source: knowledge gradient, Frazier, Powell & Dayanik (2009), with the linear-Gaussian update taken from the
draws (MODEL study, section 6).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Cell
from spectune.perfmodel.posterior import Posterior
from spectune.planning.goals import Choice, Goal, choice_of, settled, utility

RIDGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something that can be measured next.

    Attributes:
        choice: what to launch.
        concurrency: levels to measure.
        restart_s: seconds until it is ready; 0 when it is running.
        bench_s: seconds of measuring.
    """

    choice: Choice
    concurrency: tuple[int, ...]
    restart_s: float
    bench_s: float

    @property
    def cost_s(self) -> float:
        """Seconds in all, at least one."""
        return max(1.0, self.restart_s + self.bench_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """A candidate and the share of speed that measuring it is expected to gain, mean over goals."""

    candidate: Candidate
    value: float

    @property
    def rate(self) -> float:
        """Value per second."""
        return self.value / self.candidate.cost_s


def worth_of(
    posterior: Posterior,
    goals: Sequence[Goal],
    choices: Sequence[Choice],
    candidate: Candidate,
    known: frozenset[Cell],
) -> Worth:
    """Knowledge gradient of a candidate, where only what was measured may be settled on.

    Args:
        posterior: draws of every goal's cells.
        goals: what the search is for.
        choices: what can be settled on, once measured at a goal's levels.
        candidate: what might be measured next.
        known: cells measured so far.
    """
    draws = [utility(posterior, goal, choices) for goal in goals]
    values = [
        value_for(posterior, (goal, choices), one, (candidate,), known)
        for goal, one in zip(goals, draws, strict=True)
    ]
    return Worth(candidate=candidate, value=float(np.mean(values)))


def value_for(
    posterior: Posterior,
    question: tuple[Goal, Sequence[Choice]],
    draws: Floats,
    candidates: Sequence[Candidate],
    known: frozenset[Cell],
) -> float:
    """Knowledge gradient of measuring all candidates, for one goal.

    Args:
        posterior: draws of every goal's cells.
        question: the goal, and the choices that are columns of `draws`.
        draws: utility of each choice, [draws, choices].
        candidates: what might be measured together.
        known: cells measured so far.
    """
    goal, choices = question
    places = [i for i, cell in enumerate(posterior.cells) if any(is_read(cell, c) for c in candidates)]
    now = settled(goal, choices, known)
    then = settled(goal, choices, known | {posterior.cells[i] for i in places})
    return value_of_reading(
        draws,
        posterior.measured[:, _telling(posterior, goal, places)],
        Allowed(now=now, after=tuple(sorted({*now, *then}))),
    )


def is_read(cell: Cell, candidate: Candidate) -> bool:
    """Whether measuring the candidate reads the cell."""
    return choice_of(cell) == candidate.choice and cell.concurrency in candidate.concurrency


def _telling(posterior: Posterior, goal: Goal, places: Sequence[int]) -> list[int]:
    """The readings that bear on a goal: those of its own levels, or all where there are none."""
    own = [
        i
        for i in places
        if posterior.cells[i].workload == goal.workload and posterior.cells[i].concurrency in goal.concurrency
    ]
    return own or list(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Choices that may be settled on, as indices: now, and after the reading; never empty."""

    now: tuple[int, ...]
    after: tuple[int, ...]

    def __post_init__(self) -> None:
        """Checks that there is something to settle on."""
        assert self.now, "a search values readings only once something was measured"
        assert self.after, "what could be settled on before can be afterwards"


def readings(posterior: Posterior, choices: Sequence[Choice], concurrency: Sequence[int]) -> Floats:
    """What measuring these choices at these levels would read, every text, [draws, cells]."""
    places = [
        i
        for i, cell in enumerate(posterior.cells)
        if choice_of(cell) in choices and cell.concurrency in concurrency
    ]
    return posterior.measured[:, places]


def expected_losses(posterior: Posterior, goal: Goal, choices: Sequence[Choice]) -> Floats:
    """E[max_k U_k] − E[U_k] of each choice, [choices]: what is lost by settling on it now."""
    draws = utility(posterior, goal, choices)
    losses: Floats = draws.max(axis=1).mean() - draws.mean(axis=0)
    return losses


def chance_to_win(posterior: Posterior, goal: Goal, choices: Sequence[Choice], one: Choice) -> float:
    """Share of draws in which a choice is the best of all."""
    draws = utility(posterior, goal, choices)
    return float((draws.argmax(axis=1) == tuple(choices).index(one)).mean())


def value_of_reading(draws: Floats, read: Floats, allowed: Allowed) -> float:
    """V for one goal: U as `draws` [draws, choices], M as `read` [draws, cells]."""
    mean = draws.mean(axis=0)
    centred, seen = draws - mean, read - read.mean(axis=0)
    gram = seen.T @ seen
    gram += RIDGE * len(seen) * np.eye(len(gram))
    expected = seen @ np.linalg.solve(gram, seen.T @ centred)  # E(U | M) − E(U), [draws, choices]
    expected *= _shrinkage(centred, expected, read.shape[1])
    then = (mean + expected)[:, list(allowed.after)].max(axis=1).mean()
    return max(0.0, float(then - mean[list(allowed.now)].max()))


def _shrinkage(centred: Floats, expected: Floats, num_cells: int) -> Floats:
    """Takes out of each choice's explained spread what as many unrelated columns would explain by chance."""
    total = np.maximum((centred**2).sum(axis=0), 1e-300)
    explained = (expected**2).sum(axis=0) / total
    chance = num_cells / len(centred)
    factor: Floats = np.sqrt(np.clip((explained - chance) / np.maximum(explained, 1e-12), 0.0, 1.0))
    return factor
