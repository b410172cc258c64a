"""Where the best setting changes: an interval of concurrency between two measured levels, never a point.

Levels measured in between narrow it: from the end where one setting is best towards the other, as long as
that setting stays ahead; a third setting that is more than a tie ahead of both there is a change of its own.
A level in between counts only where no setting that was not measured there may be ahead
(analysis/level_guess).
The cause comes from tokens/s = running × tokens per step ÷ step time: the factor
that turned most against the lower setting from one end to the other.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from spectune.analysis.comparison import TIE_SHARE, LevelFit, SpeedDifference
from spectune.analysis.launches import OFF_ARM, Arm
from spectune.analysis.level_guess import Guess
from spectune.analysis.winners import Fits, Winner, contested
from spectune.domain.spec_config import OFF, SpecConfig

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
        concurrency: highest level at which it still does, and the next; None where there is no such place,
            or where it is faster at the highest level all the same.
        why: why there is none, "" where there is one.
        uncertain: levels at which the noise does not tell the best speculation from off.
        config: the best speculation at the lower of the two; None without them.
    """

    concurrency: tuple[int, int] | None
    why: str
    uncertain: tuple[int, ...] = ()
    config: SpecConfig | None = None


def find_crossovers(winners: tuple[Winner, ...], fits: Fits) -> tuple[Crossover, ...]:
    """The changes between neighbouring levels with more than one setting, by ascending concurrency."""
    guess = Guess.of(fits)
    return tuple(
        crossover
        for lower, upper in pairwise(sorted(contested(winners), key=lambda winner: winner.concurrency))
        if lower.config != upper.config
        for crossover in _between(lower, upper, guess)
    )


def find_break_even(levels: Collection[int], fits: Fits) -> BreakEven:
    """Where the best measured speculation falls to off's speed or below for the last time.

    Args:
        levels: of the search; in between, a level at which off leads counts where no speculation that was
            not measured there may be ahead of it.
        fits: the arms of each level.
    """
    guess = Guess.of(fits)
    leads = {
        level: lead
        for level, fit in sorted(fits.items())
        if (lead := _lead_over_off(fit)) is not None
        and (lead[1].ratio > 1 or level in levels or not guess.rivals_at(level, OFF))
    }
    if not leads:
        return BreakEven(concurrency=None, why="off and speculation were not measured at a common level")
    uncertain = tuple(level for level, (_, lead) in leads.items() if not lead.is_decided)
    for low, high in reversed(list(pairwise(leads))) if _off_leads_above(leads) else ():
        if leads[low][1].ratio > 1 >= leads[high][1].ratio:
            return BreakEven(concurrency=(low, high), why="", uncertain=uncertain, config=leads[low][0])
    why = _no_break_even({level: lead for level, (_, lead) in leads.items()})
    return BreakEven(concurrency=None, why=why, uncertain=uncertain)


def _off_leads_above(leads: Mapping[int, tuple[SpecConfig, SpeedDifference]]) -> bool:
    return leads[max(leads)][1].ratio <= 1


def _no_break_even(leads: Mapping[int, SpeedDifference]) -> str:
    """Where speculation is faster, of levels whose highest it leads or none of which it does."""
    levels = list(leads)
    first = next((level for level in levels if leads[level].ratio > 1), None)
    if first is None:
        return f"speculation is nowhere faster than off {_span(levels)}"
    behind = [level for level in levels if level > first and leads[level].ratio <= 1]
    if behind:
        again = _span([level for level in levels if level > behind[-1]])
        places = " and ".join(str(level) for level in behind)
        return f"speculation is no faster than off at {places} and is faster again {again}"
    if first == levels[0]:
        return f"speculation is faster than off {_span(levels)}"
    return f"speculation is faster than off only from {first} on"


def _span(levels: list[int]) -> str:
    return f"from {levels[0]} to {levels[-1]}" if len(levels) > 1 else f"at {levels[0]}"


def _lead_over_off(fit: LevelFit) -> tuple[SpecConfig, SpeedDifference] | None:
    """The best speculation and its speed relative to off; None without both."""
    others = [Arm(config=config) for config in fit.settings if not config.is_off]
    if not others or not fit.has(OFF_ARM):
        return None
    best = max(others, key=fit.tps)
    return best.config, fit.difference(best, OFF_ARM, contenders=len(others))


def _between(lower: Winner, upper: Winner, guess: Guess) -> Iterator[Crossover]:
    """The changes from one winner to the next, over the levels in between that tell which setting is best."""
    ends = (lower.concurrency, upper.concurrency)
    inside = [level for level in sorted(guess.fits) if ends[0] < level < ends[1]]
    pair = (lower.config, upper.config)
    steps = [(ends[0], lower.config)]
    steps += [(level, found) for level in inside if (found := _best_at(guess, pair, level)) is not None]
    steps.append((ends[1], upper.config))
    for (low, before), (high, after) in pairwise(_path(steps)):
        yield _crossover((lower, upper), (before, after), guess.fits, (low[1], high[0]))


def _best_at(guess: Guess, pair: tuple[SpecConfig, SpecConfig], level: int) -> SpecConfig | None:
    """The best setting of a level in between: one of the pair unless another is more than a tie ahead.

    None where the level does not tell it.
    """
    fit = guess.fits[level]
    speeds = {config: fit.tps(Arm(config=config)) for config in fit.settings}
    if len(speeds) < 2 or guess.rivals_at(level):
        return None
    best = max(speeds, key=lambda config: speeds[config])
    of_pair = max((config for config in pair if config in speeds), key=lambda c: speeds[c], default=best)
    return of_pair if speeds[of_pair] >= (1 - TIE_SHARE) * speeds[best] else best


_Stay = tuple[tuple[int, int], SpecConfig]
"""Where a setting is best: its first and last level."""


def _path(steps: list[tuple[int, SpecConfig]]) -> list[_Stay]:
    """From the low end to the first level of the last setting; a setting once left is not returned to."""
    stays: list[_Stay] = []
    for level, config in steps:
        if stays and stays[-1][1] == config:
            stays[-1] = (stays[-1][0][0], level), config
        elif config not in [left for _, left in stays]:
            stays.append(((level, level), config))
        if config == steps[-1][1]:
            break
    return stays


def _crossover(
    ends: tuple[Winner, Winner], change: tuple[SpecConfig, SpecConfig], fits: Fits, narrowed: tuple[int, int]
) -> Crossover:
    lower, upper = ends
    pair = (Arm(config=change[0]), Arm(config=change[1]))
    bounds = range(lower.concurrency, upper.concurrency + 1)
    common = [level for level in sorted(fits) if level in bounds and all(map(fits[level].has, pair))]
    certain = _certain(common, pair, fits, narrowed)
    is_whole = narrowed == (lower.concurrency, upper.concurrency)
    return Crossover(
        from_config=change[0],
        to_config=change[1],
        low=narrowed[0],
        high=narrowed[1],
        decided=(
            _certainly_beats(lower, upper.config) and _certainly_beats(upper, lower.config)
            if is_whole
            else certain == narrowed
        ),
        certain=certain,
        cause=_cause(fits, pair, lower.concurrency, upper.concurrency),
    )


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
    is_told = changes[worst] < 0 and not (pair[0] == OFF_ARM and worst == "verification cost")
    return worst if is_told else None  # off verifies nothing


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
