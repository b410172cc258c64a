"""Priors from published tables: spread of the parameters, scales of the effects; with sources left out.

Acceptance: the form's parameters fitted to published acceptance curves, which say more of them than speeds
do; their source publishes no table. Cost and effects by expectation-maximisation: draw each table's
parameters under the current prior, then take the mean and spread of the draws over tables (a source's weight
is the root of its number of tables), and the effect scales that make the drawn residuals most likely.
`python -m benchmarks.planner.priors` prints the constants of perfmodel/priors.py.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize

from benchmarks.planner.load_tables import PublishedTable, load_tables
from spectune.perfmodel import acceptance_model, effects
from spectune.perfmodel.effects import Coordinates, EffectScales
from spectune.perfmodel.fitting import surface_of
from spectune.perfmodel.posterior import sample
from spectune.perfmodel.priors import START_PRIOR, Prior
from spectune.perfmodel.step_cost import NUM_PARAMETERS

CURVES = Path(__file__).parent / "acceptance_curves.json"
CURVES_SOURCE = "inferencex_golden"
WIDER = 1.2  # few models in that source: spreads are taken this much wider
NUM_ROUNDS = 3
NUM_DRAWS = 24
EXCLUDED = ("specbundle",)  # several texts at one level each: kept for the transfer test
START_SCALES = np.log([0.05, 0.02, 0.013, 0.018, 0.05])  # level, smooth, setting, cell, text
SCALE_SD = 0.7
MIN_LAUNCH = 0.008  # published repeats of one launch: 1.8 % apart

Floats = NDArray[np.floating[Any]]


def learn_prior(tables: Sequence[PublishedTable], without: str = "") -> Prior:
    """The prior that all sources but one suggest; T and off keep the start's."""
    chosen = [t for t in tables if t.teaches and t.source not in (without, *EXCLUDED)]
    share = Counter(t.source for t in chosen)
    weights = np.array([share[t.source] ** -0.5 for t in chosen])
    weights /= weights.sum()
    mean, sd = acceptance_moments()
    prior, scales = replace(START_PRIOR, acceptance_mean=mean, acceptance_sd=sd), START_SCALES
    for _ in range(NUM_ROUNDS):
        costs, residuals = [], []
        for table in chosen:
            cost, residual = _draw_table(table, prior)
            costs.append(cost)
            residuals.append(residual)
        scales = _fit_scales(weights, residuals, scales)
        prior = _updated(prior, scales, _moments(weights, costs))
    return prior


def acceptance_moments() -> tuple[tuple[float, float], tuple[float, float]]:
    """Mean and spread of logit a and log(−log r) over the published curves."""
    curves = json.loads(CURVES.read_text(encoding="utf-8"))["curves"]
    found = np.array([_acceptance_of(c) for c in curves if c["source"] == CURVES_SOURCE])
    mean, sd = found.mean(axis=0), WIDER * found.std(axis=0, ddof=1)
    return (round(float(mean[0]), 2), round(float(mean[1]), 2)), (
        round(float(sd[0]), 2),
        round(float(sd[1]), 2),
    )


def _acceptance_of(curve: dict[str, Any]) -> Floats:
    steps = np.array(curve["num_steps"], dtype=np.int64)
    lengths = np.log(np.array(curve["acceptance_length"], dtype=float))

    def misfit(at: Floats) -> Floats:
        return np.asarray(np.log(acceptance_model.curve(at[:1], at[1:], steps)) - lengths)

    return np.asarray(least_squares(misfit, START_PRIOR.acceptance_mean).x)


def _draw_table(table: PublishedTable, prior: Prior) -> tuple[Floats, tuple[Floats, Coordinates]]:
    """Drawn cost parameters, residuals of the cells with speculation."""
    evidence = table.evidence()
    draws = sample(evidence, (), prior=prior, rng=np.random.default_rng(0), num_draws=NUM_DRAWS)
    rows = tuple(sorted(evidence.speeds))
    cells = tuple(r.cell for r in rows if not r.cell.setting.is_off)
    y = np.log([r.output_tps for r in rows if not r.cell.setting.is_off])
    f = surface_of(cells, draws.layout, draws.capacity).log_speed(draws.theta)
    return draws.theta[:, :NUM_PARAMETERS], (y - f, effects.coordinates(cells))


def _moments(weights: Floats, draws: Sequence[Floats]) -> tuple[Floats, Floats]:
    mean = weights @ np.array([d.mean(axis=0) for d in draws])
    spread = np.array([d.var(axis=0) + (d.mean(axis=0) - mean) ** 2 for d in draws])
    return mean, np.sqrt(weights @ spread)


def _fit_scales(weights: Floats, residuals: Sequence[tuple[Floats, Coordinates]], start: Floats) -> Floats:
    def loss(logs: Floats) -> float:
        scales, total = _scales(logs), 0.0
        for weight, (residual, at) in zip(weights * len(weights), residuals, strict=True):
            size = residual.shape[1]
            covariance = effects.lasting_covariance(at, scales) + effects.passing_covariance(
                at, np.zeros(size, dtype=np.int64), scales, np.zeros(size)
            )
            factor = np.linalg.cholesky(covariance)
            white = np.linalg.solve(factor, residual.T)
            total += weight * (0.5 * (white**2).sum() / len(residual) + np.log(np.diag(factor)).sum())
        return float(total + 0.5 * (((logs - START_SCALES) / SCALE_SD) ** 2).sum())

    return np.asarray(minimize(loss, start, method="L-BFGS-B", options={"maxiter": 8}).x)


def _scales(logs: Floats) -> EffectScales:
    """Tables have one launch per setting and one row per cell: what lasts and what passes share a scale."""
    level, smooth, setting, cell, text = (float(v) for v in np.exp(logs))
    return EffectScales(
        level=level,
        text=text,
        smooth=smooth,
        off=START_PRIOR.scales.off,
        setting=0.8 * setting,
        launch=max(0.6 * setting, MIN_LAUNCH),
        cell=0.7 * cell,
        noise=0.7 * cell,
    )


def _updated(prior: Prior, scales: Floats, cost: tuple[Floats, Floats]) -> Prior:
    def merged(fixed: tuple[float, ...], learnt: Floats) -> tuple[float, ...]:
        return (fixed[0], *(round(float(v), 2) for v in learnt[1:6]), fixed[6], round(float(learnt[7]), 2))

    return replace(
        prior,
        cost_mean=merged(prior.cost_mean, cost[0]),
        cost_sd=merged(prior.cost_sd, cost[1]),
        scales=_scales(scales),
    )


if __name__ == "__main__":
    print(learn_prior(load_tables()))
