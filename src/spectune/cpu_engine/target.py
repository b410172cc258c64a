"""The target model over its cache."""

import numpy as np
from numpy.typing import NDArray

from spectune.cpu_engine.kv_cache import CacheShape, SlotCache
from spectune.cpu_engine.layers import Weights
from spectune.cpu_engine.model_config import ModelConfig
from spectune.cpu_engine.runner import GraphRunner
from spectune.cpu_engine.slots import Ints
from spectune.cpu_engine.target_graph import target_session
from spectune.cpu_engine.verifier import Tree

Floats = NDArray[np.float32]
SUM_BLOCK = 256
"""ONNX Runtime's matmul adds up this many products in order, for heads of 64 values, then the sums of blocks
(1.32, found by comparing bits)."""


class Target:
    """Runs chunks of prompts, chains and trees; writes their keys and values into its cache."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        aux_layers: tuple[int, ...],
        num_slots: int,
        context_length: int,
        num_threads: int,
        with_trees: bool,
    ) -> None:
        self.num_slots = num_slots
        self.context_length = context_length
        self.eos_token_id = config.eos_token_id
        self.feature_size = config.hidden_size * len(aux_layers)
        shape = CacheShape(
            num_slots=num_slots + 1,
            num_layers=config.num_layers,
            num_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        self.cache = SlotCache(shape)
        self._chain = GraphRunner(target_session(config, weights, aux_layers, num_threads), self.cache)
        self._tree: GraphRunner | None = None
        if with_trees:
            session = target_session(config, weights, aux_layers, num_threads, tree=True)
            self._tree = GraphRunner(session, self.cache)

    def prefill(self, slot: int, start: int, ids: Ints) -> tuple[Floats, Floats | None]:
        """Takes in tokens start … of a prompt: logits of the last [1, vocab], features of all [n, F]."""
        shape = {"first_slot": slot, "num_sequences": 1, "num_tokens": len(ids), "num_rows": 1}
        graph = self._chain.for_shape(**shape)
        graph.arrays["ids"][0] = ids
        graph.arrays["start"][0] = start
        graph.arrays["rows"][0] = len(ids) - 1
        out = graph.run()
        return out["logits"], out["features"][0] if self.feature_size else None

    def decode(self, ids: Ints, lengths: Ints) -> tuple[Floats, Floats | None]:
        """One step over chains ids [batch, S] at entries `lengths` [batch].

        Returns logits [batch·S, vocab] and features [batch, S, F].
        """
        batch, width = ids.shape
        shape = {"num_sequences": batch, "num_tokens": width, "num_rows": batch * width}
        graph = self._chain.for_shape(**shape)
        graph.arrays["ids"][:] = ids
        graph.arrays["start"][:] = lengths
        graph.arrays["rows"][:] = np.arange(batch * width)
        out = graph.run()
        return out["logits"], out["features"] if self.feature_size else None

    def decode_tree(self, tree: Tree, lengths: Ints) -> tuple[Floats, Floats | None]:
        """As `decode` for trees: node n is written at entry length + n and sees its ancestors only."""
        assert self._tree is not None, "trees need with_trees"
        batch, width = tree.tokens.shape
        shape = {"num_sequences": batch, "num_tokens": width, "num_rows": batch * width}
        graph = self._tree.for_shape(**shape)
        graph.arrays["ids"][:] = tree.tokens
        graph.arrays["start"][:] = lengths
        graph.arrays["rows"][:] = np.arange(batch * width)
        graph.arrays["positions"][:] = lengths[:, None] + tree.depths
        order, back = tree_places(tree, lengths, self.cache.length)
        graph.arrays["order"][:] = order
        graph.arrays["back"][:] = back
        out = graph.run()
        return out["logits"], out["features"] if self.feature_size else None


def is_placed_alike(tree: Tree, lengths: Ints) -> NDArray[np.bool_]:
    """Whether each node [batch, num_nodes] stands in the same block of sums as it would in a chain.

    One that does not may have other last bits than in a chain, and so have the nodes below it.
    """
    nodes = np.arange(tree.tokens.shape[1])
    same: NDArray[np.bool_] = (lengths[:, None] + nodes) // SUM_BLOCK == (
        lengths[:, None] + tree.depths
    ) // SUM_BLOCK
    return same


def tree_places(tree: Tree, lengths: Ints, cache_length: int) -> tuple[Ints, Ints]:
    """Both orders of `layers.TreePlaces`, each [batch, 1, 1, num_nodes, cache_length].

    Node n is cache entry length + n and sees the prefix, its ancestors and itself, at places 0 … length + its
    depth. Shares of all other entries are read from the last place, which nobody sees.

    Args:
        tree: parents before their children.
        lengths: entries before the tree [batch]; length + deepest depth < cache_length − 1.
        cache_length: entries of a cache row.
    """
    batch, width = tree.parents.shape
    rows = np.arange(batch)
    related = np.zeros((batch, width, width), bool)
    for node in range(width):
        parent = tree.parents[:, node]
        inherited = related[rows, np.maximum(parent, 0)] & (parent >= 0)[:, None]
        related[:, node] = inherited
        related[:, node, node] = True
    entries = np.arange(cache_length)
    order = np.broadcast_to(entries, (batch, width, cache_length)).copy()
    known = np.where(entries < lengths[:, None], entries, cache_length - 1)
    back = np.broadcast_to(known[:, None, :], order.shape).copy()
    row, below, ancestor = np.nonzero(related)
    entry, place = lengths[row] + ancestor, lengths[row] + tree.depths[row, ancestor]
    order[row, below, place] = entry
    back[row, below, entry] = place
    return order[:, None, None], back[:, None, None]
