"""Drafts trees (topk > 1) as EAGLE-2 does: grow a beam, pool all candidates, keep the likeliest.

Each draft step expands the `topk` likeliest nodes of the step before into `topk` children each; of the
whole pool, the num_draft_tokens − 1 nodes of highest path probability are verified. A child is never
likelier than its parent, so what is kept is a tree.

Shapes: B sequences, k = topk, n nodes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectune.cpu_engine.draft_graph import DraftModel, chain_session, tree_sessions
from spectune.cpu_engine.drafter import fill_pending, new_draft_cache, take_in
from spectune.cpu_engine.kv_cache import Floats, SlotCache
from spectune.cpu_engine.layers import MASKED
from spectune.cpu_engine.runner import GraphRunner
from spectune.cpu_engine.slots import Ints, SlotTable
from spectune.cpu_engine.verifier import Tree


@dataclass(frozen=True, slots=True)
class Level:
    """Candidates of one depth, each array [B, n]: token, log probability of its path, parent in the pool."""

    tokens: Ints
    scores: NDArray[np.float64]
    parents: Ints


class TreeDrafter:
    """Drafts trees with the EAGLE head or the stand-alone model."""

    def __init__(
        self,
        draft: DraftModel,
        *,
        num_steps: int,
        topk: int,
        num_draft_tokens: int,
        num_slots: int,
        num_threads: int,
    ) -> None:
        self.cache: SlotCache = new_draft_cache(draft, num_slots)
        self._draft = draft
        self._num_steps = num_steps
        self._topk = topk
        self._num_nodes = num_draft_tokens - 1
        first, step = tree_sessions(draft, num_threads)
        self._first = GraphRunner(first, self.cache)
        self._step = GraphRunner(step, self.cache)
        self._take_in = GraphRunner(chain_session(draft, 0, num_threads), self.cache)

    def prefill(self, slot: int, start: int, ids: Ints, features: Floats | None) -> None:
        """Fills the draft's cache for a chunk of a prompt."""
        take_in(self._take_in, slot, start, ids, features)

    def draft(self, table: SlotTable, batch: int) -> Tree:
        """Drafts one tree for every slot."""
        out = fill_pending(self._first, self._draft, table, batch).run()
        last = table.pending_start[:batch] + table.pending_valid[:batch] - 1  # entry of the root's feature
        level = self._children(out["logits"], np.zeros((batch, 1)), np.full((batch, 1), -1))
        pool = [level]
        hidden = np.repeat(out["hidden"], self._topk, axis=1)  # [B, k, H]
        beam = np.tile(np.arange(self._topk), (batch, 1))  # place in the pool
        related = np.zeros((batch, self._topk, 0), bool)
        for step in range(1, self._num_steps):
            related = _with_self(related, step, self._topk)
            tokens, scores = _at(pool, beam)
            logits, states = self._run_step(tokens, hidden, last, related, step)
            level = self._children(logits, scores, beam)
            offset = sum(part.tokens.shape[1] for part in pool)
            pool.append(level)
            best = _best(level.scores, self._topk)  # [B, k] within the level
            rows = np.arange(batch)[:, None]
            grown_from = best // self._topk
            hidden, related, beam = states[rows, grown_from], related[rows, grown_from], best + offset
        return _select(pool, self._num_nodes, table.root[:batch])

    def _run_step(
        self, tokens: Ints, hidden: Floats, last: Ints, related: NDArray[np.bool_], step: int
    ) -> tuple[Floats, Floats]:
        batch, k = tokens.shape
        graph = self._step.for_shape(num_sequences=batch, num_tokens=k)
        arrays = graph.arrays
        arrays["ids"][:] = tokens
        arrays["start"][:] = last + 1 + (step - 1) * k
        arrays["positions"][:] = last[:, None] + step
        arrays["bias"][:] = _step_bias(last, related, self.cache.length)
        if self._draft.is_head:
            arrays["hidden_in"][:] = hidden
        out = graph.run()
        return out["logits"], out["hidden"].copy()

    def _children(self, logits: Floats, scores: NDArray[np.float64], places: Ints) -> Level:
        """The topk likeliest children of each node: logits [B, n, vocab] → a level of n·k candidates."""
        batch, count, _ = logits.shape
        wide = logits.astype(np.float64)
        wide -= wide.max(axis=-1, keepdims=True)
        wide -= np.log(np.exp(wide).sum(axis=-1, keepdims=True))
        best = _best(wide.reshape(batch * count, -1), self._topk).reshape(batch, count, self._topk)
        chances = np.take_along_axis(wide, best, axis=-1) + scores[:, :, None]
        return Level(
            self._draft.token_ids[best].reshape(batch, -1),
            chances.reshape(batch, -1),
            np.repeat(places, self._topk, axis=1),
        )


def _best(scores: NDArray[np.float64], count: int) -> Ints:
    """Places of the `count` highest scores of each row, highest first, earlier places first among equals."""
    if scores.shape[1] > count:
        rough = np.sort(np.argpartition(-scores, count - 1, axis=-1)[:, :count], axis=-1)
    else:
        rough = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order = np.argsort(-np.take_along_axis(scores, rough, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(rough, order, axis=-1)


def _at(pool: list[Level], places: Ints) -> tuple[Ints, NDArray[np.float64]]:
    tokens = np.concatenate([level.tokens for level in pool], axis=1)
    scores = np.concatenate([level.scores for level in pool], axis=1)
    return np.take_along_axis(tokens, places, axis=1), np.take_along_axis(scores, places, axis=1)


def _with_self(related: NDArray[np.bool_], step: int, topk: int) -> NDArray[np.bool_]:
    """Ancestor flags [B, k, written entries], grown by this step's k entries: each node sees itself."""
    own = np.broadcast_to(np.eye(topk, dtype=bool), (len(related), topk, topk))
    assert related.shape[2] == (step - 1) * topk, "each step writes topk entries"
    return np.concatenate([related, own], axis=2)


def _step_bias(last: Ints, related: NDArray[np.bool_], cache_length: int) -> Floats:
    """Additive mask [B, 1, 1, k, T]: entries 0 … last and the node's own line."""
    batch, k, written = related.shape
    visible = np.broadcast_to(
        (np.arange(cache_length) <= last[:, None])[:, None, :], (batch, k, cache_length)
    ).copy()
    places = np.broadcast_to(last[:, None, None] + 1 + np.arange(written), related.shape)
    np.put_along_axis(visible, places, related, axis=2)
    return np.where(visible, np.float32(0), MASKED)[:, None, None]


def _select(pool: list[Level], count: int, roots: Ints) -> Tree:
    """The `count` likeliest candidates as a tree under the roots, parents before children."""
    tokens = np.concatenate([level.tokens for level in pool], axis=1)
    scores = np.concatenate([level.scores for level in pool], axis=1)
    parents = np.concatenate([level.parents for level in pool], axis=1)
    depths = np.concatenate([np.full(level.tokens.shape[1], n + 1) for n, level in enumerate(pool)])
    kept = np.sort(_best(scores, count), axis=1)  # the pool is ordered by depth
    batch = len(roots)
    node_of = np.zeros((batch, tokens.shape[1] + 1), np.int64)  # the last column is the root: −1 finds it
    np.put_along_axis(node_of, kept, np.arange(1, kept.shape[1] + 1)[None, :], axis=1)
    zeros = np.zeros((batch, 1), np.int64)
    chosen_parents = np.take_along_axis(node_of, np.take_along_axis(parents, kept, axis=1), axis=1)
    return Tree(
        tokens=np.concatenate([roots[:, None], np.take_along_axis(tokens, kept, axis=1)], axis=1),
        parents=np.concatenate([zeros - 1, chosen_parents], axis=1),
        depths=np.concatenate([zeros, depths[kept]], axis=1),
    )
