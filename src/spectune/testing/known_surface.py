"""Speeds of known truth from the model's own formula, for tests of fit, prediction and planning."""

from collections.abc import Sequence

import numpy as np

from spectune.perfmodel.acceptance_model import curve
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import AcceptanceRow, CapacityCurve, Cell, Evidence, Setting, SpeedRow
from spectune.perfmodel.fitting import layout_of, surface_of
from spectune.perfmodel.priors import DEFAULT_PRIOR

CAPPED = CapacityCurve(
    law="test", weight=1.0, running=tuple(("", tokens, 40 - 4 * tokens) for tokens in range(1, 9))
)


def make_truth(seed: int) -> Floats:
    """Parameters within a standard deviation of the prior, one text."""
    rng = np.random.default_rng(seed)
    mean = np.array([*DEFAULT_PRIOR.cost_mean, *DEFAULT_PRIOR.acceptance_mean])
    sd = np.array([*DEFAULT_PRIOR.cost_sd, *DEFAULT_PRIOR.acceptance_sd])
    return np.asarray(mean + sd * rng.uniform(-1, 1, len(mean)))


def make_cells(steps: Sequence[int], levels: Sequence[int]) -> tuple[Cell, ...]:
    """Chains × levels."""
    return tuple(Cell(setting=Setting.chain(k), concurrency=c) for k in steps for c in levels)


def make_evidence(
    theta: Floats,
    cells: tuple[Cell, ...],
    *,
    capacity: CapacityCurve | None = None,
    has_acceptance: bool = True,
    noise: float = 0.0,
    seed: int = 0,
) -> Evidence:
    """What measuring the cells would read."""
    bare = Evidence(speeds=tuple(SpeedRow(cell=c, output_tps=1.0) for c in cells))
    logs = surface_of(cells, layout_of(bare), (capacity,)).log_speed(theta[None])[0]
    logs = logs + noise * np.random.default_rng(seed).standard_normal(len(cells))
    return Evidence(
        speeds=tuple(SpeedRow(cell=c, output_tps=float(np.exp(y))) for c, y in zip(cells, logs, strict=True)),
        acceptance=_acceptance(theta, cells) if has_acceptance else (),
        capacity=() if capacity is None else (capacity,),
    )


def _acceptance(theta: Floats, cells: tuple[Cell, ...]) -> tuple[AcceptanceRow, ...]:
    settings = sorted({c.setting for c in cells if not c.setting.is_off})
    lengths = [float(curve(theta[8:9], theta[9:10], np.array([s.num_steps]))[0]) for s in settings]
    return tuple(
        AcceptanceRow(setting=s, workload="", acceptance_length=length)
        for s, length in zip(settings, lengths, strict=True)
    )
