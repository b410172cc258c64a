"""Where a search starts: the launch that says most of all others, and the end that spans them with it."""

from collections.abc import Sequence

from spectune.planning.goals import Choice

MAX_STEPS = 8  # longest draft that is tried first; longer ones rarely pay and cost memory


def opening(
    choices: Sequence[Choice], launched: Sequence[Choice], measured: frozenset[Choice]
) -> Choice | None:
    """The first launch: the longest draft that can be measured; None afterwards.

    It shows acceptance at every shorter one, the worst capacity, and whether memory holds.
    """
    waiting = [c for c in _chains(choices) if c not in launched]
    if not waiting or any(c in measured for c in _chains(choices)):
        return None
    short_enough = [c for c in waiting if c.setting.num_steps <= MAX_STEPS]
    return short_enough[-1] if short_enough else waiting[0]


def far_end(
    choices: Sequence[Choice], launched: Sequence[Choice], measured: frozenset[Choice]
) -> Choice | None:
    """The shortest draft, where one draft was measured and it is longer; None otherwise.

    The two ends tell drafting from verification cost, which neighbours cannot.
    """
    chains = _chains(choices)
    waiting = [c for c in chains if c not in launched]
    done = [c for c in chains if c in measured]
    if not waiting or len(done) != 1 or _depth(waiting[0]) > _depth(done[0]):
        return None
    return waiting[0]


def _chains(choices: Sequence[Choice]) -> list[Choice]:
    """Drafts without branches, ascending."""
    return sorted((c for c in choices if c.setting.num_steps and c.setting.topk == 1), key=_depth)


def spread(levels: Sequence[int]) -> tuple[int, ...]:
    """Low, middle and high of the levels: what a first launch measures where measuring is dear.

    >>> spread((1, 2, 4, 8, 16, 32, 64))
    (1, 8, 64)
    """
    ordered = sorted(set(levels))
    return tuple(sorted({ordered[0], ordered[len(ordered) // 2], ordered[-1]}))


def _depth(choice: Choice) -> int:
    return choice.setting.num_steps
