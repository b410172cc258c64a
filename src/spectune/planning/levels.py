"""Which levels a launch measures: all where that is cheap, else those that are worth their seconds."""

from collections.abc import Sequence

from spectune.perfmodel.arrays import Floats
from spectune.planning.candidates import spread

FEW_LEVELS = 4  # so few are always measured
CHEAP = 1.0  # share of a restart that measuring more than low, middle and high may take


def is_cheap(levels: Sequence[int], costs: tuple[float, float]) -> bool:
    """Whether measuring every level costs little beside the restart that makes it possible.

    >>> is_cheap((1, 2, 4, 8, 16, 32), (200.0, 60.0)), is_cheap((1, 2, 4, 8, 16, 32), (200.0, 90.0))
    (True, False)
    """
    restart_s, bench_s = costs
    more = len(levels) - len(spread(levels))
    return len(levels) <= FEW_LEVELS or bench_s * more <= CHEAP * restart_s


def first_levels(levels: Sequence[int], costs: tuple[float, float] | None) -> tuple[int, ...]:
    """Levels of the launches that open a search: all, or low, middle and high where measuring is dear.

    Args:
        levels: ascending.
        costs: seconds of a restart and of a level; None before anything was measured, when many levels are
            taken to be dear: the longest draft, which goes first, is seldom what is settled on.
    """
    has_few = len(levels) <= FEW_LEVELS
    is_all = has_few if costs is None else is_cheap(levels, costs)
    return tuple(levels) if is_all else spread(levels)


def worthwhile(levels: Sequence[int], values: Floats, costs: tuple[float, float]) -> tuple[int, ...]:
    """Levels with the most value per second of a launch, ascending.

    The best set for Σ value ÷ (restart + bench · levels) takes levels by falling value for as long as the
    next one has more value per second than those before it with their restart.

    Args:
        levels: ascending.
        values: what reading each level gains, [levels].
        costs: seconds of a restart, seconds of measuring one level.
    """
    if is_cheap(levels, costs):
        return tuple(levels)
    restart_s, bench_s = costs
    order = sorted(range(len(levels)), key=lambda i: -values[i])
    kept, gained, spent = [order[0]], float(values[order[0]]), restart_s + bench_s
    for i in order[1:]:
        if values[i] * spent < gained * bench_s or values[i] <= 0:
            break
        kept.append(i)
        gained, spent = gained + float(values[i]), spent + bench_s
    return tuple(levels[i] for i in sorted(kept))
