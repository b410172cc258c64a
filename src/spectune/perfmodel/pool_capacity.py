"""Capacity from a model's shape and what one launch read back: exact where capacity_beliefs can only guess.

A launch that says how many requests and tokens it has room for fixes the memory R its pools were cut from
(capacity.memory_from_readback). The same R under the same law then gives every other draft length, and what
another limit on running requests would change.

Symbols: D draft tokens, root included (1 is off: no state is kept for verification); R memory of the pools,
bytes; M limit on running requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectune.errors import ConfigError
from spectune.perfmodel.capacity import (
    PoolLaw,
    Pools,
    PoolShape,
    joint_solve,
    memory_from_readback,
    reserve_first,
    with_max_requests,
)
from spectune.perfmodel.evidence import CapacityCurve
from spectune.perfmodel.input_text import count_of, number_of

LAWS: Mapping[str, PoolLaw] = {"reserve_first": reserve_first, "joint_solve": joint_solve}
MAX_CURVES = 4
LEAST_SHARE, LARGEST_SHARE = 0.001, 1000
_COUNTS = {"state_bytes": 10**12, "cell_bytes": 10**12, "max_requests": 100_000, "slots_per_request": 100}
_DEFAULTS: Mapping[str, float] = {"slots_per_request": 5, "state_share": 0.9}
_KEYS = (*_COUNTS, "state_share", "law")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A model's shape with the laws its engine may follow (names of LAWS)."""

    shape: PoolShape
    laws: tuple[str, ...] = tuple(LAWS)

    def __post_init__(self) -> None:
        """Checks the names; raises ConfigError."""
        unknown = [law for law in self.laws if law not in LAWS]
        if unknown or not self.laws:
            raise ConfigError(
                f"pools: `law is one of {', '.join(LAWS)}` must hold, got {', '.join(unknown)}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterLimit:
    """What another limit on running requests would make room for.

    Attributes:
        draft_tokens: D.
        now: requests that run at once.
        limit: the best M.
        then: requests that would run at once under it.
    """

    draft_tokens: int
    now: int
    limit: int
    then: int


def facts_of(record: Mapping[str, object], place: str) -> PoolFacts:
    """Facts as a table gives them; law, slots_per_request and state_share may be left out."""
    unknown = sorted(set(record) - set(_KEYS))
    if unknown:
        raise ConfigError(f"{place}: `only {', '.join(_KEYS)}` must hold, got {unknown!r:.80}.")
    counts = {
        key: count_of(record.get(key, _DEFAULTS.get(key)), key, place, lowest=1, highest=highest)
        for key, highest in _COUNTS.items()
    }
    share = number_of(record.get("state_share", _DEFAULTS["state_share"]), "state_share", place)
    if not LEAST_SHARE <= share <= LARGEST_SHARE:
        rule = f"{LEAST_SHARE} <= state_share <= {LARGEST_SHARE}"
        raise ConfigError(f"{place}: `{rule}` must hold, got {share:g}; leave it out for 0.9.")
    shape = PoolShape(
        state_bytes=counts["state_bytes"],
        cell_bytes=counts["cell_bytes"],
        max_requests=counts["max_requests"],
        slots_per_request=counts["slots_per_request"],
        state_share=share,
    )
    law = record.get("law")
    return PoolFacts(shape=shape) if law is None else PoolFacts(shape=shape, laws=(f"{law!s:.40}",))


def pool_curves(
    facts: PoolFacts, requests: Mapping[int, int], tokens: Mapping[int, int], draft_tokens: Sequence[int]
) -> tuple[CapacityCurve, ...]:
    """Curves that explain every read-back; raises ConfigError when none does.

    Args:
        facts: shape and laws.
        requests: running requests read back, by draft tokens.
        tokens: pool tokens read back, by draft tokens; may lack any.
        draft_tokens: where capacity is wanted.
    """
    wanted = sorted({*draft_tokens, *requests})
    curves: dict[tuple[tuple[str, int, int], ...], CapacityCurve] = {}
    for law, memory in _memories(facts, requests, tokens):
        running = tuple(("", d, max(1, _pools(facts, law, memory, d).requests)) for d in wanted)
        curves.setdefault(
            running, CapacityCurve(law=f"{law} of the model's shape", weight=1.0, running=running)
        )
    if not curves:
        seen = ", ".join(f"{n} at {d} draft tokens" for d, n in sorted(requests.items()))
        raise ConfigError(
            f"pools: `one memory explains every max_running_requests` must hold, got {seen}; check the "
            "model's shape, max_requests and the engine's version."
        )
    return tuple(curves.values())[:MAX_CURVES]


def better_limits(
    facts: PoolFacts, requests: Mapping[int, int], tokens: Mapping[int, int], draft_tokens: Sequence[int]
) -> tuple[BetterLimit, ...]:
    """The best limit for each draft length that has more room under it, at the least likely memory."""
    found = []
    memories = _memories(facts, requests, tokens)
    for d in sorted(set(draft_tokens)):
        now = min((_pools(facts, law, memory, d).requests for law, memory in memories), default=0)
        best = _best_limit(facts, memories, d)
        if best > now:
            found.append(BetterLimit(draft_tokens=d, now=now, limit=best, then=best))
    return tuple(found)


def _best_limit(facts: PoolFacts, memories: Sequence[tuple[str, float]], draft_tokens: int) -> int:
    """The largest limit under which as many requests run, by bisection; 0 for none.

    Requests are min(limit, room), and room never grows with the limit: below the best one the limit binds,
    above it no more requests run than at it.
    """

    def is_filled(limit: int) -> bool:
        limited = PoolFacts(shape=with_max_requests(facts.shape, limit), laws=facts.laws)
        return all(_pools(limited, law, memory, draft_tokens).requests >= limit for law, memory in memories)

    low, high = 0, facts.shape.max_requests + 1 if memories else 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_filled(middle) else (low, middle)
    return low


def _memories(
    facts: PoolFacts, requests: Mapping[int, int], tokens: Mapping[int, int]
) -> list[tuple[str, float]]:
    """Law and memory of every explanation of all that was read back."""
    if not requests:
        return []
    at = max(requests, key=lambda d: (d in tokens, d))
    seen = Pools(requests=requests[at], tokens=tokens.get(at, 0))
    found = []
    for law in facts.laws:
        try:
            memories = memory_from_readback(LAWS[law], _states(at), facts.shape, seen)
        except ConfigError:
            continue
        found += [
            (law, memory)
            for memory in memories
            if all(_pools(facts, law, memory, d).requests == n for d, n in requests.items())
        ]
    return found


def _pools(facts: PoolFacts, law: str, memory: float, draft_tokens: int) -> Pools:
    return LAWS[law](memory, _states(draft_tokens), facts.shape)


def _states(draft_tokens: int) -> int:
    return 0 if draft_tokens == 1 else draft_tokens
