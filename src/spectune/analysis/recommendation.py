"""One setting for all levels, and the measured reasons for it.

The rule: of the settings measured at every level, the one with the least mean log loss, where a setting's
log loss at a level is log(best tokens/s there ÷ its own). That is the highest geometric mean of speed with
all levels weighing the same. Within 1 % the setting with fewer steps is taken.
"""

import math
from dataclasses import dataclass

from spectune.analysis.comparison import TIE_SHARE, speed
from spectune.analysis.winners import LevelsByConfig, effort
from spectune.domain.spec_config import OFF, SpecConfig


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


def choose_setting(levels: LevelsByConfig, concurrency: tuple[int, ...]) -> Recommendation | None:
    """The recommended setting, launch arguments still empty; None when no setting has every level."""
    whole = {config: by_level for config, by_level in levels.items() if set(concurrency) <= set(by_level)}
    if not whole:
        return None
    means = {
        config: sum(math.log(speed(by_level[c])) for c in concurrency) / len(concurrency)
        for config, by_level in whole.items()
    }
    best = max(means.values())
    chosen = min((config for config in means if means[config] >= best + math.log1p(-TIE_SHARE)), key=effort)
    return Recommendation(
        config=chosen,
        launch_args=(),
        levels=_reasons(whole, chosen, concurrency),
        is_tie_rule=means[chosen] < best,
        alternative=_alternative(whole, means, chosen, concurrency),
    )


def _alternative(
    whole: LevelsByConfig, means: dict[SpecConfig, float], chosen: SpecConfig, concurrency: tuple[int, ...]
) -> Alternative | None:
    others = [config for config in means if config.is_off != chosen.is_off]
    if not others:
        return None
    config = max(others, key=lambda other: means[other])
    return Alternative(
        config=config,
        mean_ratio=math.exp(means[config] - means[chosen]),
        levels=_reasons(whole, config, concurrency),
    )


def _reasons(
    whole: LevelsByConfig, config: SpecConfig, concurrency: tuple[int, ...]
) -> tuple[LevelReason, ...]:
    return tuple(_reason(whole, config, level) for level in concurrency)


def _reason(whole: LevelsByConfig, config: SpecConfig, concurrency: int) -> LevelReason:
    own = whole[config][concurrency]
    off = whole[OFF][concurrency] if OFF in whole else None
    best = max(speed(by_level[concurrency]) for by_level in whole.values())
    return LevelReason(
        concurrency=concurrency,
        output_tps=speed(own),
        speedup_over_off=None if off is None else speed(own) / speed(off),
        loss=1 - speed(own) / best,
        tokens_per_step=own.summary.tokens_per_step,
        step_s=own.summary.step_s,
        off_step_s=None if off is None else off.summary.step_s,
    )
