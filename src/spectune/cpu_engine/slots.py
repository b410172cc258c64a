"""State of running sequences as arrays by slot, so that a step needs no Python per request.

Slots 0 … num_decoding − 1 decode; the ones after them are being prefilled. `SlotTable.move` keeps them
together. What a draft has not seen yet (`pending_*`) is written after each verify step.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlotTable:
    """One row per slot; the last row is spare, for swapping.

    Attributes:
        length: tokens whose keys and values are in the target's cache; the root is not.
        root: last emitted token, the next step's first input.
        cached: prompt tokens found in the prefix cache.
        generated: output tokens emitted so far.
        max_tokens: limit of output tokens.
        stops_at_eos: whether the end-of-text token ends it.
        temperature: 0 is greedy.
        top_p: share of probability kept.
        top_k: tokens kept, 0 for all.
        seed: of its random numbers.
        tokens: prompt and output so far [num_slots, context].
        pending_ids: tokens the draft has not seen [num_slots, width].
        pending_features: target features that go with them [num_slots, width, feature_size].
        pending_valid: how many of them count.
        pending_start: the draft's cache entry of the first.
    """

    length: Ints
    root: Ints
    cached: Ints
    generated: Ints
    max_tokens: Ints
    stops_at_eos: NDArray[np.bool_]
    temperature: NDArray[np.float32]
    top_p: NDArray[np.float32]
    top_k: Ints
    seed: NDArray[np.uint64]
    tokens: Ints
    pending_ids: Ints
    pending_features: NDArray[np.float32]
    pending_valid: Ints
    pending_start: Ints

    def move(self, source: int, target: int) -> None:
        """Copies row `source` over row `target`."""
        for field in fields(self):
            column = getattr(self, field.name)
            column[target] = column[source]


def new_slot_table(num_slots: int, context: int, pending_width: int, feature_size: int) -> SlotTable:
    """An empty table with one spare row."""
    rows = num_slots + 1

    def ints() -> Ints:
        return np.zeros(rows, np.int64)

    return SlotTable(
        length=ints(),
        root=ints(),
        cached=ints(),
        generated=ints(),
        max_tokens=ints(),
        stops_at_eos=np.zeros(rows, bool),
        temperature=np.zeros(rows, np.float32),
        top_p=np.ones(rows, np.float32),
        top_k=ints(),
        seed=np.zeros(rows, np.uint64),
        tokens=np.zeros((rows, context), np.int64),
        pending_ids=np.zeros((rows, pending_width), np.int64),
        pending_features=np.zeros((rows, pending_width, feature_size), np.float32),
        pending_valid=ints(),
        pending_start=ints(),
    )
