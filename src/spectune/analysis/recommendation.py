"""One setting for all levels, and the measured reasons for it.

The rule: of the settings measured at every level, the one with the least mean log loss, where a setting's
log loss at a level is log(best tokens/s there ÷ its own). That is the highest geometric mean of speed with
all levels weighing the same. Within 1 % the setting with fewer steps is taken.
"""

import math
from dataclasses import dataclass

from spectune.analysis.comparison import TIE_SHARE, LevelFit
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.winners import Fits, effort
from spectune.domain.spec_config import SpecConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReason:
    """Why a setting runs as fast as it does at one level, beside off.

    Attributes:
        concurrency: the level.
        output_tps: the setting's tokens/s.
        speedup_over_off: ratio to off's; None where off was not measured.
        loss: share by which it stays below the level's best, 0 when it is the best.
        tokens_per_step: output tokens per engine step and sequence; None without counters.
        step_s: seconds of one step; None without counters.
        off_step_s: seconds of a step with speculation off; None where unknown.
    """

    concurrency: int
    output_tps: float
    speedup_over_off: float | None
    loss: float
    tokens_per_step: float | None
    step_s: float | None
    off_step_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The best setting of the other kind: speculation when off is recommended, off otherwise.

    Attributes:
        config: the setting.
        mean_ratio: geometric mean over the levels of its tokens/s ÷ the recommended one's.
        levels: its reasons.
    """

    config: SpecConfig
    mean_ratio: float
    levels: tuple[LevelReason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The setting to run.

    Attributes:
        config: the setting.
        launch_args: flags that give it.
        levels: its reasons, by ascending concurrency.
        is_tie_rule: whether a setting with more steps was better by less than 1 %.
        alternative: what it is told apart from; None when nothing else was measured.
    """

    config: SpecConfig
    launch_args: tuple[str, ...]
    levels: tuple[LevelReason, ...]
    is_tie_rule: bool
    alternative: Alternative | None


def choose_setting(fits: Fits, concurrency: tuple[int, ...]) -> Recommendation | None:
    """The recommended setting, launch arguments still empty; None when no setting has every level."""
    means = {config: _mean_log_speed(fits, config, concurrency) for config in _whole(fits, concurrency)}
    if not means:
        return None
    best = max(means.values())
    chosen = min((config for config in means if means[config] >= best + math.log1p(-TIE_SHARE)), key=effort)
    return Recommendation(
        config=chosen,
        launch_args=(),
        levels=_reasons(fits, means, chosen, concurrency),
        is_tie_rule=means[chosen] < best,
        alternative=_alternative(fits, means, chosen, concurrency),
    )


def _whole(fits: Fits, concurrency: tuple[int, ...]) -> list[SpecConfig]:
    """The settings that were measured at every level."""
    if not set(concurrency) <= set(fits):
        return []
    others = [set(fits[level].settings) for level in concurrency[1:]]
    return [config for config in fits[concurrency[0]].settings if all(config in other for other in others)]


def _mean_log_speed(fits: Fits, config: SpecConfig, concurrency: tuple[int, ...]) -> float:
    return sum(math.log(fits[level].tps(Arm(config=config))) for level in concurrency) / len(concurrency)


def _alternative(
    fits: Fits, means: dict[SpecConfig, float], chosen: SpecConfig, concurrency: tuple[int, ...]
) -> Alternative | None:
    others = [config for config in means if config.is_off != chosen.is_off]
    if not others:
        return None
    config = max(others, key=lambda other: means[other])
    return Alternative(
        config=config,
        mean_ratio=math.exp(means[config] - means[chosen]),
        levels=_reasons(fits, means, config, concurrency),
    )


def _reasons(
    fits: Fits, means: dict[SpecConfig, float], config: SpecConfig, concurrency: tuple[int, ...]
) -> tuple[LevelReason, ...]:
    return tuple(_reason(fits[level], means, config) for level in concurrency)


def _reason(fit: LevelFit, means: dict[SpecConfig, float], config: SpecConfig) -> LevelReason:
    own = Arm(config=config)
    off = fit.summary(OFF_ARM) if fit.has(OFF_ARM) else None
    best = max(fit.tps(Arm(config=other)) for other in means)
    return LevelReason(
        concurrency=fit.concurrency,
        output_tps=fit.tps(own),
        speedup_over_off=None if off is None else fit.tps(own) / fit.tps(OFF_ARM),
        loss=1 - fit.tps(own) / best,
        tokens_per_step=fit.summary(own).tokens_per_step,
        step_s=fit.summary(own).step_s,
        off_step_s=None if off is None else off.step_s,
    )
