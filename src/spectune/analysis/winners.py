"""The best setting of each level: highest tokens/s, within 1 % the one with fewer steps.

The winner is the best of several, so its lead is the larger for having been picked. Its intervals therefore
hold for all contenders at once: the rivals that are not far behind beyond doubt (analysis/comparison).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spectune.analysis.comparison import TIE_SHARE, LevelFit, SpeedDifference
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.domain.spec_config import SpecConfig

Fits = Mapping[int, LevelFit]
"""The arms of each level, by concurrency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another setting at a winner's level, seen from the winner.

    Attributes:
        config: the other setting.
        difference: the winner's speed relative to it; its interval holds for all contenders at once.
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
        decided: whether it is faster than every other measured setting, ties excluded at 95 %; never where
            no other was measured.
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

    @property
    def is_alone(self) -> bool:
        """Whether no other setting was measured at the level: then it has won nothing."""
        return not self.rivals


def contested(winners: Iterable[Winner]) -> tuple[Winner, ...]:
    """Those that won over another setting: only they tell where the best setting changes."""
    return tuple(winner for winner in winners if not winner.is_alone)


def find_winners(fits: Fits, concurrency: tuple[int, ...]) -> tuple[Winner, ...]:
    """One winner for each level that any setting has a speed for."""
    return tuple(_winner(fits[level]) for level in concurrency if level in fits and fits[level].settings)


def _winner(fit: LevelFit) -> Winner:
    speeds = {config: fit.tps(Arm(config=config)) for config in fit.settings}
    fastest = max(speeds, key=lambda config: speeds[config])
    floor = (1 - TIE_SHARE) * speeds[fastest]
    chosen = min((config for config in speeds if speeds[config] >= floor), key=effort)
    others = sorted((config for config in speeds if config != chosen), key=lambda config: -speeds[config])
    rivals = _rivals(fit, chosen, others)
    has_off = fit.has(OFF_ARM)
    return Winner(
        concurrency=fit.concurrency,
        config=chosen,
        output_tps=speeds[chosen],
        speedup_over_off=speeds[chosen] / fit.tps(OFF_ARM) if has_off else None,
        decided=bool(rivals) and all(rival.difference.is_ahead for rival in rivals),
        is_tie_rule=chosen != fastest,
        rivals=rivals,
    )


def _rivals(fit: LevelFit, chosen: SpecConfig, others: list[SpecConfig]) -> tuple[Rival, ...]:
    """Contenders are counted by an interval that would hold for all others."""

    def against(other: SpecConfig, contenders: int) -> SpeedDifference:
        return fit.difference(Arm(config=chosen), Arm(config=other), contenders=contenders)

    contenders = sum(not against(other, len(others)).is_ahead for other in others)
    return tuple(Rival(config=other, difference=against(other, contenders)) for other in others)


def effort(config: SpecConfig) -> tuple[int, int]:
    """Orders settings by how much they speculate: of equals the smaller wins."""
    return config.num_steps, config.num_draft_tokens
