"""The surface and what it says: speeds with intervals, winners, what capacity costs. Last in the flow.

Everything is computed from draws (posterior.py); a winner is the setting with the highest mean log speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.crossovers import Crossover, find_crossovers
from spectune.perfmodel.evidence import Cell, Evidence, Setting
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import Prior

CI_LEVEL = 0.8
UNMEASURED_CAP = 0.95  # most probability a winner gets that was not measured itself


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedCell:
    """One cell of the surface.

    Attributes:
        cell: where.
        output_tps: the measured mean where `is_measured`, else the predicted median.
        output_tps_ci: 80 % interval of one more measurement on a fresh launch.
        is_measured: whether the cell was measured.
    """

    cell: Cell
    output_tps: float
    output_tps_ci: tuple[float, float]
    is_measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """Best setting of one level.

    Attributes:
        cell: level and setting.
        probability: share of draws it is best in; at most 0.95 unless measured.
        expected_loss: mean share of speed lost against the unknown best.
        is_measured: whether that cell was measured.
    """

    cell: Cell
    probability: float
    expected_loss: float
    is_measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCost:
    """What the limit on running requests costs at one level.

    Attributes:
        concurrency: the level.
        workload: the text.
        winner: best setting as it is.
        running: requests that run of the level's, under the winner.
        free_winner: best setting if every request ran.
        gain: predicted share of speed gained by lifting the limit and choosing anew.
        gain_ci: its 80 % interval.
    """

    concurrency: int
    workload: str
    winner: Setting
    running: int
    free_winner: Setting
    gain: float
    gain_ci: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextMeasurement:
    """What to measure next.

    Attributes:
        setting: setting to launch.
        concurrency: levels to measure.
        value: share of speed it is expected to gain, mean over levels.
    """

    setting: Setting
    concurrency: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """All answers about one deployment."""

    surface: tuple[PredictedCell, ...]
    winners: tuple[Winner, ...]
    crossovers: tuple[Crossover, ...]
    capacity_costs: tuple[CapacityCost, ...]
    posterior: Posterior


def predict(
    evidence: Evidence,
    settings: Sequence[Setting],
    concurrency: Sequence[int],
    *,
    prior: Prior,
    rng: np.random.Generator,
) -> Prediction:
    """Surface over settings × levels × the evidence's texts, and its answers."""
    texts = sorted({row.cell.workload for row in evidence.speeds})
    cells = tuple(
        Cell(setting=s, concurrency=c, workload=w)
        for w in texts
        for c in sorted(set(concurrency))
        for s in sorted(set(settings))
    )
    posterior = sample(evidence, cells, prior=prior, rng=rng)
    winners = tuple(winner_of(posterior, level, evidence) for level in levels_of(cells))
    return Prediction(
        surface=_surface(posterior, evidence),
        winners=winners,
        crossovers=find_crossovers(evidence, posterior, prior=prior, rng=rng),
        capacity_costs=_capacity_costs(posterior, winners),
        posterior=posterior,
    )


def levels_of(cells: Sequence[Cell]) -> tuple[tuple[int, ...], ...]:
    """Indices of the cells that compete with each other, a tuple per text and concurrency, in that order."""
    levels: dict[tuple[str, int], list[int]] = {}
    for index, cell in enumerate(cells):
        levels.setdefault((cell.workload, cell.concurrency), []).append(index)
    return tuple(tuple(levels[key]) for key in sorted(levels))


def winner_of(posterior: Posterior, level: Sequence[int], evidence: Evidence) -> Winner:
    """Best of competing cells, by the mean over draws of what lasts."""
    logs = posterior.lasting[:, list(level)]
    best = int(np.argmax(logs.mean(axis=0)))
    cell = posterior.cells[level[best]]
    is_measured = any(row.cell == cell for row in evidence.speeds)
    probability = float((logs.argmax(axis=1) == best).mean())
    loss = float(-np.expm1(logs[:, best] - logs.max(axis=1)).mean())
    return Winner(
        cell=cell,
        probability=probability if is_measured else min(probability, UNMEASURED_CAP),
        expected_loss=loss,
        is_measured=is_measured,
    )


def _surface(posterior: Posterior, evidence: Evidence) -> tuple[PredictedCell, ...]:
    measured: dict[Cell, list[float]] = {}
    for row in evidence.speeds:
        measured.setdefault(row.cell, []).append(row.output_tps)
    low, middle, high = posterior.quantiles(CI_LEVEL)
    return tuple(
        PredictedCell(
            cell=cell,
            output_tps=float(np.mean(measured[cell])) if cell in measured else float(middle[i]),
            output_tps_ci=(float(low[i]), float(high[i])),
            is_measured=cell in measured,
        )
        for i, cell in enumerate(posterior.cells)
    )


def _capacity_costs(posterior: Posterior, winners: tuple[Winner, ...]) -> tuple[CapacityCost, ...]:
    """Levels whose winner cannot run all requests, with what it would gain if it could."""
    costs = []
    for winner, level in zip(winners, levels_of(posterior.cells), strict=True):
        cell = winner.cell
        running = [
            cell.concurrency if c is None else min(cell.concurrency, c.limit(cell))
            for c in posterior.capacity
        ]
        if np.median(running) >= cell.concurrency:
            continue
        gains = _gains_without_limit(posterior, level)  # [draws, settings]
        free = int(np.argmax(gains.mean(axis=0)))
        now = posterior.lasting[:, posterior.cells.index(cell)]
        gain = np.expm1(gains[:, free] - now)
        low, high = np.quantile(gain, (0.1, 0.9))
        costs.append(
            CapacityCost(
                concurrency=cell.concurrency,
                workload=cell.workload,
                winner=cell.setting,
                running=int(np.median(running)),
                free_winner=posterior.cells[level[free]].setting,
                gain=float(np.median(gain)),
                gain_ci=(float(low), float(high)),
            )
        )
    return tuple(costs)


def _gains_without_limit(posterior: Posterior, level: Sequence[int]) -> Floats:
    """Log speed of competing cells if all requests ran: the draw plus what the formula says of the limit."""
    cells = tuple(posterior.cells[i] for i in level)
    return (
        posterior.lasting[:, list(level)]
        + posterior.formula(cells, is_limited=False)
        - posterior.formula(cells)
    )
