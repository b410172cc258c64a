"""Where a search starts: the two launches that span all others."""

from collections.abc import Sequence

from spectune.planning.goals import Choice

MAX_STEPS = 8  # longest draft that is tried first; longer ones rarely pay and cost memory


def opening(
    choices: Sequence[Choice], launched: Sequence[Choice], measured: frozenset[Choice]
) -> Choice | None:
    """The first two launches: the longest draft that can be measured, then the shortest; None afterwards.

    The longest shows acceptance at every shorter one, the worst capacity, and whether memory holds; the two
    ends tell drafting from verification cost, which neighbours cannot.
    """
    chains = sorted((c for c in choices if c.setting.num_steps and c.setting.topk == 1), key=_depth)
    started = [c for c in chains if c in measured]
    waiting = [c for c in chains if c not in launched]
    if not waiting or len(started) >= 2:
        return None
    if started:
        return waiting[0]
    short_enough = [c for c in waiting if c.setting.num_steps <= MAX_STEPS]
    return short_enough[-1] if short_enough else waiting[0]


def spread(levels: Sequence[int]) -> tuple[int, ...]:
    """Low, middle and high of the levels: what a first launch measures where measuring is dear.

    >>> spread((1, 2, 4, 8, 16, 32, 64))
    (1, 8, 64)
    """
    ordered = sorted(set(levels))
    return tuple(sorted({ordered[0], ordered[len(ordered) // 2], ordered[-1]}))


def _depth(choice: Choice) -> int:
    return choice.setting.num_steps
