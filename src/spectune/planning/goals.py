"""What a study wants to be good at: one level, a weighted mix of levels, or speed within latency limits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.errors import ConfigError
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Cell, Setting
from spectune.perfmodel.posterior import Posterior

BROKEN_LIMIT = -5.0  # log units that a broken latency limit costs: any setting that keeps it is better


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Something that can be launched: a setting under a capacity lever ("" for the flags as they are)."""

    setting: Setting
    lever: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One question to be answered by one choice.

    Attributes:
        name: for messages.
        weights: (concurrency, share of time), shares positive.
        workload: text it is asked for.
        min_request_tps: least tokens per second of one request at every level; 0 for no limit.
        floors: (choice, or None for all others; level; least tokens per second of all requests): what a
            latency limit asks of each choice.
    """

    name: str
    weights: tuple[tuple[int, float], ...]
    workload: str = ""
    min_request_tps: float = 0.0
    floors: tuple[tuple["Choice | None", int, float], ...] = ()

    def __post_init__(self) -> None:
        """Checks the weights; raises ConfigError."""
        if not self.weights or min(share for _, share in self.weights) <= 0:
            raise ConfigError(f"goal {self.name}: `every weight > 0` must hold, got {self.weights}.")

    @property
    def concurrency(self) -> tuple[int, ...]:
        """Levels it looks at."""
        return tuple(level for level, _ in self.weights)

    def floor(self, choice: "Choice", level: int) -> float:
        """Least tokens per second of all requests that keeps the limits; 0 where there is none."""
        by_choice = {one: tps for one, at, tps in self.floors if at == level}
        return max(self.min_request_tps * level, by_choice.get(choice, by_choice.get(None, 0.0)))


def per_level(levels: Sequence[int], workload: str = "") -> tuple[Goal, ...]:
    """One goal for each level."""
    return tuple(
        Goal(name=f"concurrency {level}", weights=((level, 1.0),), workload=workload)
        for level in sorted(set(levels))
    )


def cells_of(goals: Sequence[Goal], choices: Sequence[Choice]) -> tuple[Cell, ...]:
    """Every cell the goals look at."""
    places = sorted({(g.workload, c) for g in goals for c in g.concurrency})
    return tuple(
        Cell(setting=choice.setting, concurrency=c, workload=w, lever=choice.lever)
        for choice in choices
        for w, c in places
    )


def choice_of(cell: Cell) -> Choice:
    """What has to be launched to measure a cell."""
    return Choice(setting=cell.setting, lever=cell.lever)


def settled(goal: Goal, choices: Sequence[Choice], known: frozenset[Cell]) -> tuple[int, ...]:
    """Indices of the choices measured at every level of the goal; of those measured at any level, if none."""
    wanted = {(goal.workload, level) for level in goal.concurrency}
    places: dict[Choice, set[tuple[str, int]]] = {}
    for cell in known:
        places.setdefault(choice_of(cell), set()).add((cell.workload, cell.concurrency))
    fully = tuple(i for i, choice in enumerate(choices) if wanted <= places.get(choice, set()))
    return fully or tuple(i for i, choice in enumerate(choices) if choice in places)


def is_measured(goal: Goal, known: frozenset[Cell]) -> bool:
    """Whether some choice was measured at every level of the goal."""
    places: dict[Choice, set[int]] = {}
    for cell in known:
        if cell.workload == goal.workload:
            places.setdefault(choice_of(cell), set()).add(cell.concurrency)
    return any(set(goal.concurrency) <= levels for levels in places.values())


def utility(posterior: Posterior, goal: Goal, choices: Sequence[Choice]) -> Floats:
    """Weighted mean log speed of each choice, [draws, choices]; lowered where a limit is broken.

    U = Σ share·(log y + BROKEN_LIMIT·[y < floor]) ÷ Σ share
    """
    index = {cell: i for i, cell in enumerate(posterior.cells)}
    total = np.zeros((len(posterior.lasting), len(choices)))
    for level, share in goal.weights:
        places = [
            index[Cell(setting=c.setting, concurrency=level, workload=goal.workload, lever=c.lever)]
            for c in choices
        ]
        logs = posterior.lasting[:, places]
        total += share * logs
        floors = np.array([goal.floor(choice, level) for choice in choices])
        total += share * BROKEN_LIMIT * (np.exp(logs) < floors)
    return total / sum(share for _, share in goal.weights)
