"""One decode step of a batch: draft, verify, accept, and note what the draft must see next."""

from dataclasses import replace

import numpy as np

from spectune.cpu_engine.drafter import Chain, Drafter
from spectune.cpu_engine.kv_cache import Floats
from spectune.cpu_engine.sampler import Sampling, choose
from spectune.cpu_engine.slots import Ints, SlotTable
from spectune.cpu_engine.stats import Stats
from spectune.cpu_engine.target import Target, is_placed_alike
from spectune.cpu_engine.verifier import Tree, accept_chain, accept_tree


class Decoder:
    """Moves decoding sequences on. Slots 0 … batch − 1 of the table decode."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        table: SlotTable,
        stats: Stats,
        *,
        first_pending: int,
        corrupt_every: int,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._table = table
        self._stats = stats
        self._first_pending = first_pending
        self._corrupt_every = corrupt_every

    def step(self, batch: int) -> tuple[Ints, Ints]:
        """Decodes every sequence once.

        Returns:
            The target's tokens [batch, width] along each accepted path, and how many drafts of each row
            were accepted [batch]; accepted + 1 tokens of a row are new.
        """
        draft = self._drafter.draft(self._table, batch)
        if isinstance(draft, Tree):
            chosen, accepted, drafted = self._verify_tree(draft, batch)
        else:
            chosen, accepted, drafted = self._verify_chain(draft, batch)
        self._stats.count_step(drafted, accepted)
        if self._corrupt_every and drafted.any():
            self._corrupt(chosen, accepted)
        self._advance(chosen, accepted, batch)
        return chosen, accepted

    def _verify_chain(self, draft: Chain, batch: int) -> tuple[Ints, Ints, Ints]:
        """Returns the target's tokens [batch, S], accepted and drafted counts [batch]."""
        width = int(draft.drafted.max(initial=0))
        drafts = draft.tokens[:, :width]
        ids = np.concatenate([self._table.root[:batch, None], drafts], axis=1)
        logits, features = self._target.decode(ids, self._table.length[:batch])
        positions = self._table.length[:batch, None] + 1 + np.arange(width + 1)
        chosen = choose_tokens(self._table, logits, np.arange(batch).repeat(width + 1), positions.ravel())
        chosen = chosen.reshape(batch, width + 1)
        if features is not None:
            self._table.pending_features[:batch, : width + 1] = features
        return chosen, accept_chain(drafts, draft.drafted, chosen), draft.drafted

    def _verify_tree(self, tree: Tree, batch: int) -> tuple[Ints, Ints, Ints]:
        """As `_verify_chain`; moves the accepted path's cache entries to where a chain's would be.

        A node whose scores may not be a chain's to the last bit is not accepted; the next step drafts again.
        """
        num_nodes = tree.tokens.shape[1]
        length = self._table.length[:batch]
        logits, features = self._target.decode_tree(tree, length)
        positions = length[:, None] + 1 + tree.depths
        chosen = choose_tokens(self._table, logits, np.arange(batch).repeat(num_nodes), positions.ravel())
        exact = replace(tree, tokens=np.where(is_placed_alike(tree, length), tree.tokens, -1))
        path = accept_tree(exact, chosen.reshape(batch, num_nodes))
        accepted = (path > 0).sum(axis=1)
        nodes = np.maximum(path, 0)
        along = np.take_along_axis(chosen.reshape(batch, num_nodes), nodes, axis=1)
        slots, depths = np.nonzero(path > 0)
        self._target.cache.gather(slots, length[slots] + path[slots, depths], length[slots] + depths)
        if features is not None:
            width = path.shape[1]
            rows = np.arange(batch)[:, None]
            self._table.pending_features[:batch, :width] = features[rows, nodes]
        return along, accepted, np.full(batch, num_nodes - 1)

    def _advance(self, chosen: Ints, accepted: Ints, batch: int) -> None:
        """Moves every sequence past its accepted tokens; what the draft must see next is pending."""
        table = self._table
        width = chosen.shape[1]
        rows = np.arange(batch)
        length = table.length[:batch]
        table.tokens[rows[:, None], length[:, None] + 1 + np.arange(width)] = chosen
        table.pending_ids[:batch, :width] = chosen
        table.pending_valid[:batch] = accepted + 1
        table.pending_start[:batch] = length + self._first_pending
        table.root[:batch] = chosen[rows, accepted]
        table.length[:batch] = length + accepted + 1

    def _corrupt(self, chosen: Ints, accepted: Ints) -> None:
        """Spoils every n-th token, counted over all emitted ones; tests of the lossless check ask for it."""
        before = self._stats.generated_tokens
        emitted = np.arange(chosen.shape[1]) <= accepted[:, None]
        numbers = before + emitted.ravel().cumsum().reshape(emitted.shape)
        chosen[emitted & (numbers % self._corrupt_every == 0)] ^= 1


def choose_tokens(table: SlotTable, logits: Floats, slots: Ints, positions: Ints) -> Ints:
    """The target's token of each row of logits [rows, vocab], for slots [rows] at positions [rows]."""
    if not table.temperature[slots].any():
        best: Ints = logits.argmax(axis=-1)
        return best
    return choose(
        logits,
        Sampling(
            table.temperature[slots], table.top_p[slots], table.top_k[slots], table.seed[slots], positions
        ),
    )
