"""Why a setting runs as fast as it does at a level: what it makes per step, how long a step is, how many run.

tokens/s = mean running sequences × tokens per step ÷ step time, all three measured, beside those of off.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from spectune.analysis.baselines import Baselines
from spectune.analysis.comparison import LevelFit
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.winners import Fits
from spectune.domain.spec_config import SpecConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReason:
    """Why a setting runs as fast as it does at one level, beside off.

    Attributes:
        concurrency: the level.
        output_tps: the setting's tokens/s.
        speedup_over_off: ratio to off's at its own capacity; None where off was not measured.
        speedup_equal_limits: ratio to off's at equal limits; None where that was not measured.
        loss: share by which it stays below the level's best, 0 when it is the best.
        tokens_per_step: output tokens per engine step and sequence; None without counters.
        step_s: seconds of one step; None without counters.
        off_step_s: seconds of a step with speculation off; None where unknown.
        running: mean sequences between their first and last token.
        off_running: those of off; None where unknown.
        ttft_s: median time to the first token; None where unknown.
        off_ttft_s: that of off; None where unknown.
        capacity: most sequences the setting runs at once; None where its server did not say.
    """

    concurrency: int
    output_tps: float
    speedup_over_off: float | None
    loss: float
    tokens_per_step: float | None
    step_s: float | None
    off_step_s: float | None
    speedup_equal_limits: float | None = None
    running: float | None = None
    off_running: float | None = None
    ttft_s: float | None = None
    off_ttft_s: float | None = None
    capacity: int | None = None

    @property
    def extra_step_share(self) -> float | None:
        """Share of a step that drafting and verifying take beyond a step of off."""
        if not self.step_s or not self.off_step_s:
            return None
        return 1 - self.off_step_s / self.step_s


def reasons(
    fits: Fits,
    config: SpecConfig,
    others: Collection[SpecConfig],
    baselines: Baselines,
    capacity: int | None = None,
) -> tuple[LevelReason, ...]:
    """The setting's reasons at every level at which all others were measured too."""
    common = [fit for _, fit in sorted(fits.items()) if set(others) <= set(fit.settings)]
    found = (_reason(fit, config, others, baselines) for fit in common)
    return tuple(replace(reason, capacity=capacity) for reason in found)


def _reason(
    fit: LevelFit, config: SpecConfig, others: Collection[SpecConfig], baselines: Baselines
) -> LevelReason:
    own = Arm(config=config)
    speed, summary = fit.tps(own), fit.summary(own)
    off = fit.summary(OFF_ARM) if fit.has(OFF_ARM) else None
    over_off, equal_limits = baselines.speedups(fit, own)
    return LevelReason(
        concurrency=fit.concurrency,
        output_tps=speed,
        speedup_over_off=over_off,
        loss=1 - speed / max(fit.tps(Arm(config=other)) for other in others),
        tokens_per_step=summary.tokens_per_step,
        step_s=summary.step_s,
        off_step_s=None if off is None else off.step_s,
        speedup_equal_limits=equal_limits,
        running=summary.mean_running,
        off_running=None if off is None else off.mean_running,
        ttft_s=summary.ttft_s.p50,
        off_ttft_s=None if off is None else off.ttft_s.p50,
    )
