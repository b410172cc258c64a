"""Keeps caches of finished sequences: a prompt with the same beginning need not be computed again."""

from collections import OrderedDict
from dataclasses import dataclass

from spectune.cpu_engine.kv_cache import Floats, SlotCache
from spectune.cpu_engine.slots import Ints

MIN_TOKENS = 16
Saved = list[tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A finished sequence: its tokens [n] and, per cache (target, then draft), their entries."""

    tokens: Ints
    parts: list[Saved]

    @property
    def num_bytes(self) -> int:
        """Memory its entries take."""
        return sum(keys.nbytes + values.nbytes for saved in self.parts for keys, values in saved)


class PrefixCache:
    """Finished sequences within a byte budget; the least recently used go first."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._prefixes: OrderedDict[int, Prefix] = OrderedDict()
        self._next = 0
        self._used = 0

    def __len__(self) -> int:
        return len(self._prefixes)

    def save(self, tokens: Ints, slot: int, caches: list[SlotCache]) -> None:
        """Keeps a copy of a slot's first len(tokens) entries."""
        if len(tokens) < MIN_TOKENS:
            return
        prefix = Prefix(tokens.copy(), [cache.read(slot, len(tokens)) for cache in caches])
        self._prefixes[self._next] = prefix
        self._next += 1
        self._used += prefix.num_bytes
        while self._used > self._budget:
            _, oldest = self._prefixes.popitem(last=False)
            self._used -= oldest.num_bytes

    def restore(self, prompt: Ints, slot: int, caches: list[SlotCache]) -> int:
        """Fills a slot from the longest common beginning; returns the entries that need not be computed.

        The last common token is left out: a head's entry i needs token i + 1. So is the prompt's last
        token: its logits are wanted. Rows of `caches` must hold the prompt already.
        """
        best, shared = -1, 0
        for key, prefix in self._prefixes.items():
            common = _common(prefix.tokens, prompt)
            if common > shared:
                best, shared = key, common
        count = shared - 1
        if count < MIN_TOKENS:
            return 0
        self._prefixes.move_to_end(best)
        for cache, saved in zip(caches, self._prefixes[best].parts, strict=True):
            cache.write(slot, saved, count)
        return count

    def clear(self) -> None:
        """Forgets everything."""
        self._prefixes.clear()
        self._used = 0


def _common(one: Ints, other: Ints) -> int:
    """Length of the common beginning."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    return int(differs.argmax()) if differs.any() else size
