"""Runs a compiled graph over a cache with its memory bound once per shape.

Binding costs more than a small step, so the arrays of a shape (B sequences, S tokens, R rows, first
slot) are made and bound once and filled in place afterwards. What a caller fills is what is run: `for_shape`
hands out the arrays together with their binding, however many other shapes are forgotten meanwhile.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from spectune.cpu_engine.kv_cache import SlotCache

MAX_BOUND = 256
Array = NDArray[Any]
_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


@dataclass(frozen=True, slots=True)
class BoundGraph:
    """A graph bound to the arrays of one shape; good until the cache is next reserved.

    Attributes:
        arrays: inputs to fill and outputs to read, by name.
    """

    arrays: Mapping[str, Array]
    _session: ort.InferenceSession
    _binding: ort.IOBinding

    def run(self) -> Mapping[str, Array]:
        """Runs the graph over the arrays as filled; returns them, outputs overwritten by the next run."""
        self._session.run_with_iobinding(self._binding)
        return self.arrays


class GraphRunner:
    """A graph with a cache. Input shapes are symbolic in "B", "S", "R" and "T"."""

    def __init__(self, session: ort.InferenceSession, cache: SlotCache) -> None:
        self._session = session
        self._cache = cache
        self._bound: OrderedDict[tuple[int, int, int, int], BoundGraph] = OrderedDict()
        self._generation = cache.generation

    def for_shape(
        self, *, first_slot: int = 0, num_sequences: int, num_tokens: int, num_rows: int = 0
    ) -> BoundGraph:
        """The graph bound for a shape, over slots first_slot …; the least recently used of many goes."""
        if self._generation != self._cache.generation:
            self._bound.clear()
            self._generation = self._cache.generation
        key = (first_slot, num_sequences, num_tokens, num_rows)
        if key in self._bound:
            self._bound.move_to_end(key)
            return self._bound[key]
        if len(self._bound) >= MAX_BOUND:
            self._bound.popitem(last=False)
        sizes = {"B": num_sequences, "S": num_tokens, "R": num_rows, "T": self._cache.length}
        self._bound[key] = self._bind(first_slot, sizes)
        return self._bound[key]

    def _bind(self, first_slot: int, sizes: Mapping[str, int]) -> BoundGraph:
        binding = self._session.io_binding()
        arrays: dict[str, Array] = {}
        for value in self._session.get_inputs():
            array = self._array(value, first_slot, sizes)
            binding.bind_input(value.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            arrays[value.name] = array
        for value in self._session.get_outputs():
            array = self._array(value, first_slot, sizes)
            binding.bind_output(value.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            arrays[value.name] = array
        return BoundGraph(arrays, self._session, binding)

    def _array(self, value: ort.NodeArg, first_slot: int, sizes: Mapping[str, int]) -> Array:
        """Cache memory for `key0`, `value0_out2`, …; fresh zeros for the rest."""
        name = value.name.partition("_")[0]
        if name[:-1] in ("key", "value"):
            keys, values = self._cache.layers[int(name[-1])]
            part = keys if name.startswith("key") else values
            return part[first_slot : first_slot + sizes["B"]]
        shape = [sizes[size] if isinstance(size, str) else size for size in value.shape]
        return np.zeros(shape, _DTYPES[value.type])
