"""Key/value memory in slots: one row of contiguous memory per sequence and layer.

Rows are as long as the longest running sequence needs, in whole buckets, because attention reads a row
to its end; they grow by copying. Running sequences occupy the first slots, so a batch is a view.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BUCKET = 64
SHRINK_SHARE = 0.5

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """Shape of a cache.

    Attributes:
        num_slots: sequences it holds.
        num_layers: layers.
        num_heads: key/value heads.
        head_dim: width of a head.
    """

    num_slots: int
    num_layers: int
    num_heads: int
    head_dim: int


class SlotCache:
    """Keys and values [num_slots, num_heads, length, head_dim] of each layer, zeros where never written."""

    def __init__(self, shape: CacheShape) -> None:
        self._shape = shape
        self.length = BUCKET
        self.generation = 0
        self.layers = self._allocate(self.length)

    def reserve(self, needed: int, num_used: int, lengths: NDArray[np.int64]) -> None:
        """Makes rows hold `needed` entries, keeping those of the first `num_used` slots; may also shrink.

        Args:
            needed: entries the longest sequence may write next.
            num_used: slots in use.
            lengths: entries to keep of each slot [>= num_used].
        """
        wanted = -(-needed // BUCKET) * BUCKET
        if wanted <= self.length and wanted > SHRINK_SHARE * self.length:
            return
        fresh = self._allocate(wanted)
        kept = int(lengths[:num_used].max(initial=0))
        for old, new in zip(self.layers, fresh, strict=True):
            for old_part, new_part in zip(old, new, strict=True):
                new_part[:num_used, :, :kept] = old_part[:num_used, :, :kept]
        self.layers = fresh
        self.length = wanted
        self.generation += 1

    def move(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` entries of slot `source` over those of slot `target`."""
        for layer in self.layers:
            for part in layer:
                part[target, :, :length] = part[source, :, :length]

    def gather(
        self, slots: NDArray[np.int64], sources: NDArray[np.int64], targets: NDArray[np.int64]
    ) -> None:
        """Copies entry sources[i] of slot slots[i] to entry targets[i], all read before any is written."""
        for layer in self.layers:
            for part in layer:
                part[slots, :, targets] = part[slots, :, sources]

    def read(self, slot: int, length: int) -> list[tuple[Floats, Floats]]:
        """A copy of the first `length` entries of a slot, per layer."""
        return [
            (keys[slot, :, :length].copy(), values[slot, :, :length].copy()) for keys, values in self.layers
        ]

    def write(self, slot: int, saved: list[tuple[Floats, Floats]], length: int) -> None:
        """Puts the first `length` entries of a copy made by `read` into a slot."""
        for layer, parts in zip(self.layers, saved, strict=True):
            for part, old in zip(layer, parts, strict=True):
                part[slot, :, :length] = old[:, :length]

    def _allocate(self, length: int) -> list[tuple[Floats, Floats]]:
        shape = (self._shape.num_slots, self._shape.num_heads, length, self._shape.head_dim)
        return [
            (np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for _ in range(self._shape.num_layers)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """How a byte budget is spent.

    Attributes:
        max_running_requests: sequences that fit at full context length.
        max_total_num_tokens: cache entries of all of them.
    """

    max_running_requests: int
    max_total_num_tokens: int


def plan_memory(
    budget_bytes: int,
    *,
    context_length: int,
    bytes_per_token: int,
    workspace_bytes: int,
    max_running_requests: int | None,
) -> MemoryPlan:
    """What fits in `budget_bytes`; raises ValueError when not even one sequence does.

    Args:
        budget_bytes: for caches and verification workspace.
        context_length: longest sequence, in tokens.
        bytes_per_token: cache bytes per token, target and draft layers.
        workspace_bytes: of one sequence's verification (logits, features, activations of its draft tokens).
        max_running_requests: an upper limit the user set.
    """
    per_sequence = context_length * bytes_per_token + workspace_bytes
    fitting = budget_bytes // per_sequence
    if fitting < 1:
        raise ValueError(
            f"`cache bytes >= bytes of one sequence` must hold, got {budget_bytes} < {per_sequence}"
        )
    running = min(fitting, max_running_requests or fitting)
    return MemoryPlan(max_running_requests=running, max_total_num_tokens=running * context_length)
