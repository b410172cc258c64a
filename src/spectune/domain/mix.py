"""A mix of levels as weights of measured levels, alike for what is searched and for what is answered.

A level that is not measured is read from its measured neighbours, linearly in log concurrency; beyond them
the nearest level stands for it.
"""

import math
from collections.abc import Iterable, Sequence


def neighbours(measured: Sequence[int], concurrency: int) -> tuple[tuple[int, float], ...]:
    """Measured levels that stand for one, with their parts, together 1.

    Args:
        measured: levels, ascending.
        concurrency: the level they stand for.

    >>> neighbours((1, 4, 16), 8)
    ((4, 0.5), (16, 0.5))
    """
    if concurrency in measured:
        return ((concurrency, 1.0),)
    below = [level for level in measured if level < concurrency]
    above = [level for level in measured if level > concurrency]
    if not below or not above:
        return ((measured[0] if above else measured[-1], 1.0),)
    low, high = below[-1], above[0]
    part = math.log(concurrency / low) / math.log(high / low)
    return ((low, 1 - part), (high, part))


def level_weights(mix: Iterable[tuple[int, float]], measured: Sequence[int]) -> dict[int, float]:
    """The mix as weights of measured levels, ascending, together 1; those of weight 0 are left out.

    Args:
        mix: (concurrency, share of time); empty: every measured level counts alike.
        measured: levels, ascending.
    """
    shares = tuple(mix) or tuple((level, 1.0) for level in measured)
    total = sum(share for _, share in shares)
    weights = dict.fromkeys(measured, 0.0)
    for concurrency, share in shares:
        for level, part in neighbours(measured, concurrency):
            weights[level] += part * share / total
    return {level: weight for level, weight in weights.items() if weight > 0}
