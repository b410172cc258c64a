"""The best setting of each level: highest tokens/s, within 1 % the one with fewer steps."""

from dataclasses import dataclass

from spectune.analysis.comparison import TIE_SHARE, MeasuredLevel, SpeedDifference, compare, speed
from spectune.domain.spec_config import OFF, SpecConfig

LevelsByConfig = dict[SpecConfig, dict[int, MeasuredLevel]]
"""Measured levels of completed trials by setting and concurrency; every one has a tokens/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another setting at a winner's level, seen from the winner.

    Attributes:
        config: the other setting.
        difference: the winner's speed relative to it.
    """

    config: SpecConfig
    difference: SpeedDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The best setting at one level.

    Attributes:
        concurrency: the level.
        config: the setting.
        output_tps: its tokens/s there.
        speedup_over_off: its tokens/s ÷ those of off; None where off was not measured.
        decided: whether it is faster than every other measured setting, ties excluded at 95 %.
        is_tie_rule: whether a setting with more steps was faster by less than 1 %.
        rivals: the other settings, fastest first.
    """

    concurrency: int
    config: SpecConfig
    output_tps: float
    speedup_over_off: float | None
    decided: bool
    is_tie_rule: bool
    rivals: tuple[Rival, ...]


def find_winners(levels: LevelsByConfig, concurrency: tuple[int, ...]) -> tuple[Winner, ...]:
    """One winner for each level that any setting has a speed for."""
    found = (_winner(_at(levels, level), level) for level in concurrency)
    return tuple(winner for winner in found if winner is not None)


def _at(levels: LevelsByConfig, concurrency: int) -> dict[SpecConfig, MeasuredLevel]:
    return {config: by_level[concurrency] for config, by_level in levels.items() if concurrency in by_level}


def _winner(measured: dict[SpecConfig, MeasuredLevel], concurrency: int) -> Winner | None:
    if not measured:
        return None
    fastest = max(measured, key=lambda config: speed(measured[config]))
    floor = (1 - TIE_SHARE) * speed(measured[fastest])
    chosen = min((config for config in measured if speed(measured[config]) >= floor), key=effort)
    rivals = tuple(
        Rival(config=config, difference=compare(measured[chosen], measured[config]))
        for config in sorted(measured, key=lambda config: -speed(measured[config]))
        if config != chosen
    )
    off = measured.get(OFF)
    return Winner(
        concurrency=concurrency,
        config=chosen,
        output_tps=speed(measured[chosen]),
        speedup_over_off=None if off is None else speed(measured[chosen]) / speed(off),
        decided=bool(rivals) and all(_is_beaten(rival.difference) for rival in rivals),
        is_tie_rule=chosen != fastest,
        rivals=rivals,
    )


def effort(config: SpecConfig) -> tuple[int, int]:
    """Orders settings by how much they speculate: of equals the smaller wins."""
    return config.num_steps, config.num_draft_tokens


def _is_beaten(difference: SpeedDifference) -> bool:
    return difference.is_decided and difference.ratio > 1
