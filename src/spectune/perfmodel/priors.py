"""What is known before anything is measured: spread of the parameters over published tables.

`benchmarks/planner/priors.py` computes these numbers from the tables beside it, and again with one
source left out for every score that is published; the constants here use all of them.
"""

import math
from dataclasses import dataclass, replace

from spectune.perfmodel.effects import EffectScales

LOG_KAPPA = 0.4  # experts fill up faster than independent routing would have it; MODEL study, section 2
LOG_KAPPA_SD = 0.7
UNLIKE_OFF, UNLIKE_OFF_SHARE = 2.5, 0.1  # factor on off's deviations; share of such servers
ROUGH, ROUGH_SHARE = 2.5, 0.1  # factor on what the formula leaves over; share of such servers


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

    def kinds(self) -> tuple[tuple["Prior", float], ...]:
        """Kinds of deployment with their shares: as usual, off unlike the curve, rougher than usual, both."""
        usual, rough = self, self.rough()
        return (
            (usual, (1 - UNLIKE_OFF_SHARE) * (1 - ROUGH_SHARE)),
            (usual.unlike_off(), UNLIKE_OFF_SHARE * (1 - ROUGH_SHARE)),
            (rough, (1 - UNLIKE_OFF_SHARE) * ROUGH_SHARE),
            (rough.unlike_off(), UNLIKE_OFF_SHARE * ROUGH_SHARE),
        )

    def unlike_off(self) -> "Prior":
        """A server whose off runs other kernels: its deviations are two and a half times as wide."""
        return replace(self, scales=replace(self.scales, off=UNLIKE_OFF * self.scales.off))

    def rough(self) -> "Prior":
        """A server that the formula fits badly: what it leaves over is two and a half times as large."""
        scales = replace(self.scales, smooth=ROUGH * self.scales.smooth, cell=ROUGH * self.scales.cell)
        return replace(self, scales=scales)

    def saturation(self, expert_share: float | None) -> tuple[float, float]:
        """Mean and standard deviation of log n0; narrower when the target's expert shape is known."""
        if expert_share is None:
            return self.cost_mean[2], self.cost_sd[2]
        return -math.log(expert_share) - LOG_KAPPA, LOG_KAPPA_SD


# Where the estimation starts: the MODEL study's in-sample spread, widened; off as in its section 2.
START_PRIOR = Prior(
    #          log T log m  log n0 log c  log s  log d  off  log v
    cost_mean=(-5.0, -0.4, 3.0, -5.2, -5.1, -2.8, -0.10, -5.1),
    cost_sd=(1.5, 0.9, 1.2, 0.8, 0.9, 0.7, 0.08, 1.2),
    acceptance_mean=(1.5, -2.6),
    acceptance_sd=(0.8, 0.9),
    scales=EffectScales(
        level=0.05, text=0.05, smooth=0.02, off=0.06, setting=0.01, launch=0.008, cell=0.015, noise=0.015
    ),
)

# Acceptance from published acceptance curves, the rest from every table in benchmarks/planner/tables that
# teaches; `python -m benchmarks.planner.priors` prints it.
DEFAULT_PRIOR = Prior(
    cost_mean=(-5.0, 0.14, 3.21, -4.4, -5.57, -2.61, -0.1, -5.41),
    cost_sd=(1.5, 1.36, 0.9, 0.87, 1.1, 1.1, 0.08, 1.78),
    acceptance_mean=(1.68, -2.91),
    acceptance_sd=(0.58, 0.95),
    scales=EffectScales(
        level=0.0524,
        text=0.0709,
        smooth=0.0451,
        off=0.06,
        setting=0.0043,
        launch=0.008,
        cell=0.0111,
        noise=0.0111,
    ),
)
