"""Drafters: each proposes tokens for the whole batch.

A chain is `Chain`; a tree (topk > 1) is `verifier.Tree`. The EAGLE head and the stand-alone model share
one drafter: they differ in their graphs and in where their entries start.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spectune.cpu_engine.draft_graph import DraftModel, chain_session
from spectune.cpu_engine.kv_cache import CacheShape, Floats, SlotCache
from spectune.cpu_engine.runner import BoundGraph, GraphRunner
from spectune.cpu_engine.schedule import Schedule
from spectune.cpu_engine.slots import Ints, SlotTable
from spectune.cpu_engine.verifier import Tree

NGRAM_SIZES = (4, 3, 2)


@dataclass(frozen=True, slots=True)
class Chain:
    """Drafted tokens [batch, num_steps] and how many of each row count [batch]."""

    tokens: Ints
    drafted: Ints


class Drafter(Protocol):
    """What the engine asks of a drafter. Slots are rows of the table and of `cache`."""

    @property
    def cache(self) -> SlotCache | None:
        """Its key/value cache, if it has one."""

    def draft(self, table: SlotTable, batch: int) -> Chain | Tree:
        """Proposes tokens after the root of slots 0 … batch − 1; takes their pending entries in."""

    def prefill(self, slot: int, start: int, ids: Ints, features: Floats | None) -> None:
        """Takes in a prompt's entries start …: `ids` [n] and, for a head, `features` [>= n, F]."""


class NoDrafter:
    """Speculation off."""

    cache: SlotCache | None = None

    def draft(self, table: SlotTable, batch: int) -> Chain:
        """Drafts nothing."""
        del table
        return Chain(np.zeros((batch, 0), np.int64), np.zeros(batch, np.int64))

    def prefill(self, slot: int, start: int, ids: Ints, features: Floats | None) -> None:
        """Needs nothing."""


class NgramDrafter:
    """Copies what followed the latest earlier occurrence of the last tokens (prompt lookup)."""

    cache: SlotCache | None = None

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def draft(self, table: SlotTable, batch: int) -> Chain:
        """Looks the longest of NGRAM_SIZES up that occurs earlier; drafts nothing where none does."""
        num_steps = self._schedule.steps_for(batch)
        ends = table.length[:batch] + 1  # tokens known, root included
        longest = int(ends.max())
        tokens = table.tokens[:batch, :longest]
        found = np.full(batch, -1, np.int64)
        for size in NGRAM_SIZES:
            open_rows = np.flatnonzero((found < 0) & (ends > size))
            if open_rows.size:
                found[open_rows] = _last_match(tokens[open_rows], ends[open_rows], size)
        offsets = np.arange(num_steps)
        places = np.minimum(found[:, None] + offsets, longest - 1)
        drafts = np.take_along_axis(tokens, np.maximum(places, 0), axis=1)
        drafted = np.where(found >= 0, np.minimum(ends - found, num_steps), 0)
        return Chain(drafts, drafted)

    def prefill(self, slot: int, start: int, ids: Ints, features: Floats | None) -> None:
        """Needs nothing: it reads the table's tokens."""


class ModelDrafter:
    """Drafts chains with the EAGLE head or the stand-alone model, one graph call for all steps.

    Where the schedule says 0 steps the pending entries are still taken in, so that the draft's cache is
    whole when drafting begins again.
    """

    def __init__(self, draft: DraftModel, schedule: Schedule, num_slots: int, num_threads: int) -> None:
        self.cache: SlotCache = new_draft_cache(draft, num_slots)
        self._draft = draft
        self._schedule = schedule
        self._chains = {
            steps: GraphRunner(chain_session(draft, steps, num_threads), self.cache)
            for steps in {0, *schedule.step_counts}
        }
        self._take_in = self._chains[0]

    def draft(self, table: SlotTable, batch: int) -> Chain:
        """Drafts the likeliest chain for every slot."""
        num_steps = self._schedule.steps_for(batch)
        chain = self._chains[num_steps]
        out = fill_pending(chain, self._draft, table, batch).run()
        tokens = out["drafts"] if num_steps else np.zeros((batch, 0), np.int64)
        return Chain(tokens, np.full(batch, num_steps, np.int64))

    def prefill(self, slot: int, start: int, ids: Ints, features: Floats | None) -> None:
        """Fills the draft's cache for a chunk of a prompt."""
        take_in(self._take_in, slot, start, ids, features)


def new_draft_cache(draft: DraftModel, num_slots: int) -> SlotCache:
    """An empty cache for a draft's one layer."""
    config = draft.config
    shape = CacheShape(
        num_slots=num_slots, num_layers=1, num_heads=config.num_kv_heads, head_dim=config.head_dim
    )
    return SlotCache(shape)


def fill_pending(runner: GraphRunner, draft: DraftModel, table: SlotTable, batch: int) -> BoundGraph:
    """A graph with what the draft has not seen yet in its inputs, ready to run."""
    width = int(table.pending_valid[:batch].max())
    graph = runner.for_shape(num_sequences=batch, num_tokens=width)
    arrays = graph.arrays
    arrays["ids"][:] = table.pending_ids[:batch, :width]
    arrays["start"][:] = table.pending_start[:batch]
    arrays["valid"][:] = table.pending_valid[:batch]
    if draft.is_head:
        arrays["features"][:] = table.pending_features[:batch, :width]
    return graph


def take_in(runner: GraphRunner, slot: int, start: int, ids: Ints, features: Floats | None) -> None:
    """Writes a prompt chunk's entries start … into a slot of the draft's cache."""
    if len(ids) == 0:
        return
    graph = runner.for_shape(first_slot=slot, num_sequences=1, num_tokens=len(ids))
    graph.arrays["ids"][0] = ids
    graph.arrays["start"][0] = start
    if features is not None:
        graph.arrays["features"][0] = features[: len(ids)]
    graph.run()


def _last_match(tokens: Ints, ends: Ints, size: int) -> Ints:
    """Place after the latest earlier occurrence of each row's last `size` tokens [rows]; −1 for none."""
    rows = np.arange(len(tokens))[:, None]
    suffix = tokens[rows, ends[:, None] - size + np.arange(size)]  # [rows, size]
    starts = tokens.shape[1] - size
    same = np.ones((len(tokens), starts), bool)
    for offset in range(size):
        same &= tokens[:, offset : offset + starts] == suffix[:, offset : offset + 1]
    same &= np.arange(starts)[None, :] < (ends - size)[:, None]
    last = starts - 1 - same[:, ::-1].argmax(axis=1)
    return np.where(same.any(axis=1), last + size, -1)
