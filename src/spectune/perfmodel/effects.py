"""What the formula leaves over, as correlated effects. Joins cells so that comparisons are surer than levels.

    log y = log f + u(C) + x(text) + g(C, K) + o(C)·[off] + v(setting) + w(launch) + q(cell) + e

Symbols (all in log units; squared scales are variances)
    u    effect of a level shared by all settings: batch buckets, prefill share, run length
    x    effect of a text on all its cells: prompt lengths, share of prefill
    g    smooth error of the formula in log2 C and log2 (K + 1)
    o    off's own smooth curve in log2 C: other kernels than the verification's
    v    effect of a setting: what its launch changes for good
    w    effect of one launch
    q    effect of a cell that repeats
    e    noise of one measurement

u, v and e are the random effects of the MODEL study, section 2; g and o replace its rule of thumb that
predicted deviations be multiplied by 1.5. Gaussian conditioning: Rasmussen & Williams (2006), eq. 2.23.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectune.perfmodel.arrays import Floats, Ints
from spectune.perfmodel.evidence import Cell

LENGTH_CONCURRENCY = 2.0  # octaves over which g and o stay alike
LENGTH_STEPS = 1.0  # octaves of K + 1 over which g stays alike
OFF_AT_ONE, OFF_OCTAVES = 0.5, 4.0  # o grows with the batch, as kernels do differ: ½ at C = 1, 2 at C = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectScales:
    """Standard deviations of the effects, log units."""

    level: float
    text: float
    smooth: float
    off: float
    setting: float
    launch: float
    cell: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """Cells as arrays, each [cells]."""

    octave: Floats
    depth: Floats
    is_off: NDArray[np.bool_]
    setting: Ints
    workload: Ints


def coordinates(cells: Sequence[Cell]) -> Coordinates:
    """Where cells lie, for the covariance."""
    settings = [(c.setting.num_steps, c.setting.topk, c.setting.num_draft_tokens) for c in cells]
    names = sorted({c.workload for c in cells})
    return Coordinates(
        octave=np.log2(np.array([c.concurrency for c in cells], dtype=float)),
        depth=np.log2(np.array([k + 1 for k, _, _ in settings], dtype=float)),
        is_off=np.array([k == 0 for k, _, _ in settings]),
        setting=np.array([(k * 1024 + t) * 1024 + d for k, t, d in settings], dtype=np.int64),
        workload=np.array([names.index(c.workload) for c in cells], dtype=np.int64),
    )


def lasting_covariance(at: Coordinates, scales: EffectScales) -> Floats:
    """Covariance [cells, cells] of what a cell keeps when it is launched and measured again."""
    far = np.abs(at.octave[:, None] - at.octave[None, :])
    deep = np.abs(at.depth[:, None] - at.depth[None, :])
    same_text = at.workload[:, None] == at.workload[None, :]
    same_level = (far == 0) & same_text
    both_off = at.is_off[:, None] & at.is_off[None, :]
    same_setting = at.setting[:, None] == at.setting[None, :]
    growth = OFF_AT_ONE + at.octave / OFF_OCTAVES
    near = np.exp(-0.5 * (far / LENGTH_CONCURRENCY) ** 2)
    smooth = near * np.exp(-0.5 * (deep / LENGTH_STEPS) ** 2)
    total: Floats = (
        scales.level**2 * same_level
        + scales.text**2 * same_text
        + scales.smooth**2 * smooth
        + scales.off**2 * near * both_off * growth[:, None] * growth[None, :]
        + scales.setting**2 * same_setting
        + scales.cell**2 * (same_setting & same_level)
    )
    return total


def passing_covariance(at: Coordinates, launch: Ints, scales: EffectScales, log_sd: Floats) -> Floats:
    """Covariance [cells, cells] of what a second launch or measurement would change."""
    same = (at.setting[:, None] == at.setting[None, :]) & (launch[:, None] == launch[None, :])
    total: Floats = scales.launch**2 * same + np.diag(scales.noise**2 + log_sd**2)
    return total
