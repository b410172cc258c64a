"""Where the best setting changes: an interval of concurrency between two measured levels, never a point.

Levels measured in between narrow it: from the end where one setting is best towards the other, as long as
that setting stays ahead. The cause comes from tokens/s = running × tokens per step ÷ step time: the factor
that turned most against the lower setting from one end to the other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from spectune.analysis.comparison import LevelFit, SpeedDifference
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.winners import Fits, Winner
from spectune.domain.spec_config import SpecConfig

Cause = Literal["capacity", "verification cost", "acceptance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """A change of the best setting.

    Attributes:
        from_config: best at `low` and below, down to the crossover before.
        to_config: best at `high`.
        low: highest measured level at which `from_config` was best.
        high: lowest measured level at which `to_config` was.
        decided: whether each is certainly faster than the other at its own end.
        certain: the narrowest levels around at which that is certain; None where it is at none.
        cause: what turned against `from_config`; None where counters or step times are missing.
    """

    from_config: SpecConfig
    to_config: SpecConfig
    low: int
    high: int
    decided: bool
    certain: tuple[int, int] | None = None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Where the best speculation stops beating off.

    Attributes:
        concurrency: highest level at which it still does, and the next; None where there is no such place.
        why: why there is none, "" where there is one.
        uncertain: levels at which the noise does not tell the best speculation from off.
    """

    concurrency: tuple[int, int] | None
    why: str
    uncertain: tuple[int, ...] = ()


def find_crossovers(winners: tuple[Winner, ...], fits: Fits) -> tuple[Crossover, ...]:
    """The changes between neighbouring levels, by ascending concurrency."""
    return tuple(
        _crossover(lower, upper, fits)
        for lower, upper in pairwise(sorted(winners, key=lambda winner: winner.concurrency))
        if lower.config != upper.config
    )


def find_break_even(fits: Fits) -> BreakEven:
    """Where the best measured speculation falls to off's speed or below."""
    leads = {level: lead for level, fit in sorted(fits.items()) if (lead := _lead_over_off(fit)) is not None}
    if not leads:
        return BreakEven(concurrency=None, why="off and speculation were not measured at a common level")
    levels = list(leads)
    uncertain = tuple(level for level, lead in leads.items() if not lead.is_decided)
    for low, high in pairwise(levels):
        if leads[low].ratio > 1 >= leads[high].ratio:
            return BreakEven(concurrency=(low, high), why="", uncertain=uncertain)
    return BreakEven(concurrency=None, why=_no_break_even(leads), uncertain=uncertain)


def _no_break_even(leads: Mapping[int, SpeedDifference]) -> str:
    levels = list(leads)
    span = f"from {levels[0]} to {levels[-1]}" if len(levels) > 1 else f"at {levels[0]}"
    if leads[levels[0]].ratio > 1:
        return f"speculation is faster than off {span}"
    first = next((level for level, lead in leads.items() if lead.ratio > 1), None)
    if first is None:
        return f"speculation is nowhere faster than off {span}"
    return f"speculation is faster than off only from {first} on"


def _lead_over_off(fit: LevelFit) -> SpeedDifference | None:
    """The best speculation relative to off; None without both."""
    others = [Arm(config=config) for config in fit.settings if not config.is_off]
    if not others or not fit.has(OFF_ARM):
        return None
    return fit.difference(max(others, key=fit.tps), OFF_ARM, contenders=len(others))


def _crossover(lower: Winner, upper: Winner, fits: Fits) -> Crossover:
    pair = (Arm(config=lower.config), Arm(config=upper.config))
    bounds = range(lower.concurrency, upper.concurrency + 1)
    common = [level for level in sorted(fits) if level in bounds and all(map(fits[level].has, pair))]
    low, high = _narrowed(common, pair, fits, (lower.concurrency, upper.concurrency))
    certain = _certain(common, pair, fits, (low, high))
    is_whole = (low, high) == (lower.concurrency, upper.concurrency)
    return Crossover(
        from_config=lower.config,
        to_config=upper.config,
        low=low,
        high=high,
        decided=(
            _certainly_beats(lower, upper.config) and _certainly_beats(upper, lower.config)
            if is_whole
            else certain == (low, high)
        ),
        certain=certain,
        cause=_cause(fits, pair, lower.concurrency, upper.concurrency),
    )


def _narrowed(common: list[int], pair: tuple[Arm, Arm], fits: Fits, ends: tuple[int, int]) -> tuple[int, int]:
    """The last level up to which the lower setting leads, and the next one."""
    low, high = ends
    for level in common:
        if low < level < high:
            if fits[level].tps(pair[0]) > fits[level].tps(pair[1]):
                low = level
            else:
                high = level
    return low, high


def _certain(
    common: list[int], pair: tuple[Arm, Arm], fits: Fits, narrowed: tuple[int, int]
) -> tuple[int, int] | None:
    before = [c for c in common if c <= narrowed[0] and fits[c].difference(*pair).is_ahead]
    after = [c for c in common if c >= narrowed[1] and fits[c].difference(*pair).is_behind]
    return (max(before), min(after)) if before and after else None


def _cause(fits: Fits, pair: tuple[Arm, Arm], low: int, high: int) -> Cause | None:
    if not all(fits[level].has(arm) for level in (low, high) for arm in pair):
        return None
    before, after = _factors(fits[low], pair), _factors(fits[high], pair)
    if before is None or after is None:
        return None
    changes = {cause: after[cause] - before[cause] for cause in before}
    worst = min(changes, key=lambda cause: changes[cause])
    return worst if changes[worst] < 0 else None


def _factors(fit: LevelFit, pair: tuple[Arm, Arm]) -> dict[Cause, float] | None:
    """Log of each factor of the first arm's speed ÷ the second's."""
    first, second = (fit.summary(arm) for arm in pair)
    found: dict[Cause, tuple[float | None, float | None]] = {
        "capacity": (first.mean_running, second.mean_running),
        "acceptance": (first.tokens_per_step, second.tokens_per_step),
        "verification cost": (second.step_s, first.step_s),
    }
    logs = {cause: math.log(a / b) for cause, (a, b) in found.items() if a and b}
    return logs if len(logs) == len(found) else None


def _certainly_beats(winner: Winner, other: SpecConfig) -> bool:
    return any(rival.config == other and rival.difference.is_ahead for rival in winner.rivals)
