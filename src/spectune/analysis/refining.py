"""Where the best setting still changes between levels that are wide apart: what to measure next.

The next levels are two that are narrow around the place where the settings' guessed speeds
(analysis/level_guess) change their order, as a secant does, then the middle of the larger part beside them.
Where a guess was wrong once, the middle of the gap comes first, as in bisection: each step then leaves at
most half of it. Each level is measured by the two settings that meet and by those that may be close to the
better one there.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

from spectune.analysis.crossover import BreakEven, Crossover
from spectune.analysis.level_guess import Guess
from spectune.analysis.winners import Fits
from spectune.domain.shortlist import NARROW, Gap, WantedLevel, is_narrow
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed

_NEAR = 0.03  # as far behind the best a guess may see a setting that is measured all the same
_MOST_LEVELS = 6  # wanted at a time, of one gap
Pair = tuple[SpecConfig, SpecConfig]


def open_gaps(
    history: StudyHistory, fits: Fits, crossovers: tuple[Crossover, ...], break_even: BreakEven
) -> tuple[Gap, ...]:
    """The changes that are still wide, by ascending level, with what would narrow them."""
    guess = Guess.of(fits)
    found = [Gap(first=c.from_config, second=c.to_config, low=c.low, high=c.high) for c in crossovers]
    if break_even.concurrency is not None and break_even.config is not None:
        low, high = break_even.concurrency
        if (low, high) not in [(gap.low, gap.high) for gap in found]:
            found.append(Gap(first=break_even.config, second=OFF, low=low, high=high))
    return tuple(_with_levels(history, guess, gap) for gap in found if not gap.is_narrow)


def whys_wide(
    history: StudyHistory, crossovers: tuple[Crossover, ...], break_even: BreakEven
) -> dict[tuple[int, int], str]:
    """Why each change that is still wide was not narrowed further, by its ends."""
    ends = [(change.low, change.high) for change in crossovers]
    ends += [] if break_even.concurrency is None else [break_even.concurrency]
    return {one: _why_wide(history, *one) for one in ends if not is_narrow(*one)}


def _why_wide(history: StudyHistory, low: int, high: int) -> str:
    proof = history.study.proof
    if not proof.refine or not proof.launched_rounds:
        return "levels in between were not asked for (--refine, --confirm)"
    if not history.finished:
        return "the study was interrupted"
    refining = [outcome for outcome in history.outcomes if outcome.trial.role == "refine"]
    if any(not isinstance(outcome, Completed) for outcome in refining):
        return "a launch for the levels in between failed"
    if len(refining) >= proof.most_refining:
        return f"{len(refining)} launches for levels in between did not do it"
    return "the budget ended" if history.was_short_of_refining else _why_untold(history, low, high)


def _why_untold(history: StudyHistory, low: int, high: int) -> str:
    """Why no launch was left to make, though the change is wide."""
    measured = {level.concurrency for outcome in _completed(history) for level in outcome.levels}
    if any(low < level < high for level in measured):
        return "levels in between were measured and did not tell"
    return "the settings that meet there were not both measured in between"


def _completed(history: StudyHistory) -> Iterator[Completed]:
    return (outcome for outcome in history.outcomes if isinstance(outcome, Completed))


def _with_levels(history: StudyHistory, guess: Guess, gap: Gap) -> Gap:
    pair, ends = (gap.first, gap.second), (gap.low, gap.high)
    begun = [level for level in sorted(guess.fits) if ends[0] < level < ends[1]]
    begun = [level for level in begun if level not in history.study.concurrency]
    is_first = set(ends) <= set(history.study.concurrency)
    inside = _inside(guess, pair, ends, is_first=is_first)
    wanted = (_wanted(guess, pair, level) for level in dict.fromkeys([*begun, *inside]))
    levels = tuple(one for one in wanted if one.needed)[:_MOST_LEVELS]
    return Gap(first=gap.first, second=gap.second, low=gap.low, high=gap.high, levels=levels)


def _wanted(guess: Guess, pair: Pair, level: int) -> WantedLevel:
    """Who is to be measured at the level: those it takes to tell the best, and those that may be close."""
    measured, xs = guess.measured(level), guess.at(level)
    best = max(xs.values(), default=0.0)
    leaders = guess.rivals_at(level) if measured else {config for config, x in xs.items() if x == best}
    near = {config for config, x in xs.items() if x >= best - _NEAR}
    needed = {*pair, *leaders}.difference(measured)
    return WantedLevel(
        concurrency=level,
        needed=frozenset(needed),
        useful=frozenset(needed | near.difference(measured)),
    )


def _inside(guess: Guess, pair: Pair, ends: tuple[int, int], *, is_first: bool) -> Iterator[int]:
    """Levels around each change of the guessed best, and the middle: of what that leaves, or of the whole."""
    best = {ends[0]: pair[0], ends[1]: pair[1]}
    for level in range(ends[0] + 1, ends[1]):
        xs = guess.at(level)
        best[level] = max(xs, key=lambda config: xs[config], default=pair[0])
    changes = [change for change in pairwise(sorted(best)) if best[change[0]] != best[change[1]]]
    around = [level for change in changes for level in _widened(change, ends) if level not in ends]
    marks = {*ends, *around} if is_first else {*ends}
    low, high = max(pairwise(sorted(marks)), key=lambda part: part[1] / part[0])
    middle = [min(max(math.isqrt(low * high), low + 1), high - 1)] if high > low + 1 else []
    yield from [*around, *middle] if is_first else [*middle, *around]


def _widened(change: tuple[int, int], ends: tuple[int, int]) -> tuple[int, int]:
    """The widest levels around a change, within the ends, between which it would still be narrow.

    >>> _widened((9, 10), (4, 32)), _widened((2, 3), (1, 4)), _widened((28, 29), (4, 32))
    ((9, 11), (2, 3), (26, 32))
    """
    low, high = change
    while True:
        wider = [(low, high + 1)] if high < ends[1] else []
        wider += [(low - 1, high)] if low > ends[0] else []
        found = next((one for one in wider if one[1] <= NARROW * one[0]), None)
        if found is None:
            return low, high
        low, high = found
