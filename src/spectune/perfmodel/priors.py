"""What is known before anything is measured: spread of the parameters over published tables.

`benchmarks/planner/priors.py` computes these numbers from the tables beside it, and again with one
source left out for every score that is published; the constants here use all of them.
"""

import math
from dataclasses import dataclass

from spectune.perfmodel.effects import EffectScales

LOG_KAPPA = 0.4  # experts fill up faster than independent routing would have it; MODEL study, section 2
LOG_KAPPA_SD = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Independent normal priors and effect scales.

    Attributes:
        cost_mean: means of step_cost.PARAMETERS; the first, log T, is set from the data at each fit.
        cost_sd: their standard deviations.
        acceptance_mean: of logit a and log(−log r).
        acceptance_sd: their standard deviations.
        scales: standard deviations of the effects.
    """

    cost_mean: tuple[float, ...]
    cost_sd: tuple[float, ...]
    acceptance_mean: tuple[float, float]
    acceptance_sd: tuple[float, float]
    scales: EffectScales

    def saturation(self, expert_share: float | None) -> tuple[float, float]:
        """Mean and standard deviation of log n0; narrower when the target's expert shape is known."""
        if expert_share is None:
            return self.cost_mean[2], self.cost_sd[2]
        return -math.log(expert_share) - LOG_KAPPA, LOG_KAPPA_SD


DEFAULT_PRIOR = Prior(
    #          log T log m  log n0 log c  log s  log d  off
    cost_mean=(-5.0, -0.4, 3.0, -5.2, -5.1, -2.8, -0.08),
    cost_sd=(1.5, 0.9, 1.2, 0.8, 0.9, 0.7, 0.07),
    acceptance_mean=(1.5, -2.6),
    acceptance_sd=(0.8, 0.9),
    scales=EffectScales(
        level=0.05, text=0.05, smooth=0.02, off=0.06, setting=0.01, launch=0.008, cell=0.015, noise=0.015
    ),
)
