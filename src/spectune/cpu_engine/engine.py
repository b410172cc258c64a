"""The engine: admits requests, takes prompts in, decodes a batch. `step` shows the whole of it."""

from collections import deque

import numpy as np

from spectune.cpu_engine.drafter import Chain, Drafter
from spectune.cpu_engine.kv_cache import Floats, SlotCache
from spectune.cpu_engine.messages import StepOutput, Submit
from spectune.cpu_engine.prefix_cache import PrefixCache
from spectune.cpu_engine.sampler import Sampling, choose
from spectune.cpu_engine.slots import Ints, SlotTable, new_slot_table
from spectune.cpu_engine.stats import Stats
from spectune.cpu_engine.target import Target
from spectune.cpu_engine.verifier import Tree, accept_chain, accept_tree


class Engine:
    """Continuous batching over slots. Not thread-safe; one `step` at a time."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        *,
        num_draft_tokens: int,
        lookahead: int,
        prefill_tokens: int,
        prefix_bytes: int,
        corrupt_every: int = 0,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._margin = lookahead
        self._first_pending = 0 if target.feature_size else 1  # a head pairs feature i with token i + 1
        self._prefixes = PrefixCache(prefix_bytes)
        self._prefill_tokens = prefill_tokens
        self._corrupt_every = corrupt_every
        self.num_slots = target.num_slots
        self.table: SlotTable = new_slot_table(
            self.num_slots,
            target.context_length + self._margin,
            num_draft_tokens,
            target.feature_size,
        )
        self.stats = Stats()
        self._waiting: deque[Submit] = deque()
        self._requests: list[Submit] = []  # by slot
        self._num_decoding = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._waiting or self._requests)

    def submit(self, request: Submit) -> None:
        """Queues a request."""
        self._waiting.append(request)

    def cancel(self, request_id: int) -> None:
        """Forgets a request and frees its slot at once; unknown ones are ignored."""
        self._waiting = deque(r for r in self._waiting if r.request_id != request_id)
        for slot, request in enumerate(self._requests):
            if request.request_id == request_id:
                self._release(slot)
                break
        self._update_gauges()

    def flush(self) -> bool:
        """Empties the prefix cache; does nothing and returns False while there is work."""
        if self.has_work:
            return False
        self._prefixes.clear()
        return True

    def step(self) -> StepOutput:
        """Admits what fits, takes in one chunk of prompts, decodes every running sequence once."""
        output = StepOutput(stats=self.stats)
        admitted = self._admit()
        self._reserve()
        for slot in admitted:
            self._reuse_prefix(slot)
        if self._num_decoding < len(self._requests):
            self._prefill(output)
        if self._num_decoding:
            self._decode(output)
        self._update_gauges()
        return output

    def _admit(self) -> list[int]:
        """Gives waiting requests free slots; returns those slots."""
        admitted = []
        while self._waiting and len(self._requests) < self.num_slots:
            request = self._waiting.popleft()
            slot = len(self._requests)
            admitted.append(slot)
            self._requests.append(request)
            table = self.table
            table.length[slot] = 0
            table.generated[slot] = 0
            table.max_tokens[slot] = request.max_tokens
            table.stops_at_eos[slot] = request.stops_at_eos
            table.temperature[slot] = request.temperature
            table.top_p[slot] = request.top_p
            table.top_k[slot] = request.top_k
            table.seed[slot] = request.seed
            table.tokens[slot, : len(request.prompt)] = request.prompt
        return admitted

    def _reuse_prefix(self, slot: int) -> None:
        prompt = self.table.tokens[slot, : len(self._requests[slot].prompt)]
        cached = self._prefixes.restore(prompt, slot, self._caches())
        self.table.length[slot] = cached
        self.table.cached[slot] = cached
        self.stats.cached_tokens += cached

    def _reserve(self) -> None:
        """Makes cache rows long enough for whatever this step may write."""
        used = len(self._requests)
        if not used:
            return
        lengths = self.table.length[:used].copy()
        prompts = [len(request.prompt) for request in self._requests[self._num_decoding :]]
        needed = max(int(lengths.max()), max(prompts, default=0)) + self._margin
        for cache in self._caches():
            kept = np.minimum(lengths + self._margin, cache.length)
            cache.reserve(needed, used, kept)

    def _prefill(self, output: StepOutput) -> None:
        """Takes in chunks of the oldest prompts, up to the step's limit of tokens."""
        left = self._prefill_tokens
        while left > 0 and self._num_decoding < len(self._requests):
            slot = self._oldest_prompt()
            prompt = self._requests[slot].prompt
            start = int(self.table.length[slot])
            end = min(start + left, len(prompt))
            left -= end - start
            last = end == len(prompt)
            logits, features = self._target.prefill(slot, start, self.table.tokens[slot, start:end])
            self._prefill_draft(slot, start, end, features, last=last)
            self.table.length[slot] = end
            self.stats.prompt_tokens += end - start
            if last:
                self._begin_decoding(slot, logits, output)

    def _prefill_draft(self, slot: int, start: int, end: int, features: Floats | None, *, last: bool) -> None:
        """A head's entry i needs token i + 1: the last one waits, pending, for the first output token."""
        shift = 1 - self._first_pending
        stop = end - shift if last else end
        self._drafter.prefill(slot, start, self.table.tokens[slot, start + shift : stop + shift], features)
        if last and features is not None:
            self.table.pending_features[slot, 0] = features[end - 1 - start]

    def _begin_decoding(self, slot: int, logits: Floats, output: StepOutput) -> None:
        table = self.table
        table.root[slot] = self._choose(
            logits, np.array([slot]), np.array([len(self._requests[slot].prompt)])
        )[0]
        self._swap(slot, self._num_decoding)
        slot = self._num_decoding
        self._num_decoding += 1
        length = int(table.length[slot])
        table.tokens[slot, length] = table.root[slot]
        table.pending_ids[slot, 0] = table.root[slot]
        table.pending_valid[slot] = 1
        table.pending_start[slot] = length - 1 + self._first_pending
        self._emit(np.array([slot]), table.root[slot : slot + 1, None], np.array([1]), output)

    def _decode(self, output: StepOutput) -> None:
        batch = self._num_decoding
        draft = self._drafter.draft(self.table, batch)
        if isinstance(draft, Tree):
            chosen, accepted, drafted = self._verify_tree(draft, batch)
        else:
            chosen, accepted, drafted = self._verify_chain(draft, batch)
        self.stats.count_step(drafted, accepted)
        if self._corrupt_every and drafted.any():
            self._corrupt(chosen, accepted)
        self._advance(chosen, accepted, batch)
        self._emit(np.arange(batch), chosen, accepted + 1, output)

    def _verify_chain(self, draft: Chain, batch: int) -> tuple[Ints, Ints, Ints]:
        """Returns the target's tokens [batch, S], accepted and drafted counts [batch]."""
        width = int(draft.drafted.max(initial=0))
        drafts = draft.tokens[:, :width]
        ids = np.concatenate([self.table.root[:batch, None], drafts], axis=1)
        logits, features = self._target.decode(ids, self.table.length[:batch])
        positions = self.table.length[:batch, None] + 1 + np.arange(width + 1)
        chosen = self._choose(logits, np.arange(batch).repeat(width + 1), positions.ravel())
        chosen = chosen.reshape(batch, width + 1)
        if features is not None:
            self.table.pending_features[:batch, : width + 1] = features
        return chosen, accept_chain(drafts, draft.drafted, chosen), draft.drafted

    def _verify_tree(self, tree: Tree, batch: int) -> tuple[Ints, Ints, Ints]:
        """As `_verify_chain`; moves the accepted path's cache entries to where a chain's would be."""
        num_nodes = tree.tokens.shape[1]
        length = self.table.length[:batch]
        logits, features = self._target.decode_tree(tree, length)
        positions = length[:, None] + 1 + tree.depths
        chosen = self._choose(logits, np.arange(batch).repeat(num_nodes), positions.ravel())
        path = accept_tree(tree, chosen.reshape(batch, num_nodes))
        accepted = (path > 0).sum(axis=1)
        nodes = np.maximum(path, 0)
        along = np.take_along_axis(chosen.reshape(batch, num_nodes), nodes, axis=1)
        slots, depths = np.nonzero(path > 0)
        self._target.cache.gather(slots, length[slots] + path[slots, depths], length[slots] + depths)
        if features is not None:
            width = path.shape[1]
            rows = np.arange(batch)[:, None]
            self.table.pending_features[:batch, :width] = features[rows, nodes]
        return along, accepted, np.full(batch, num_nodes - 1)

    def _advance(self, chosen: Ints, accepted: Ints, batch: int) -> None:
        """Moves every sequence past its accepted tokens; what the draft must see next is pending."""
        table = self.table
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
        before = self.stats.generated_tokens
        emitted = np.arange(chosen.shape[1]) <= accepted[:, None]
        numbers = before + emitted.ravel().cumsum().reshape(emitted.shape)
        chosen[emitted & (numbers % self._corrupt_every == 0)] ^= 1

    def _choose(self, logits: Floats, slots: Ints, positions: Ints) -> Ints:
        table = self.table
        if not table.temperature[slots].any():
            best: Ints = logits.argmax(axis=-1)
            return best
        return choose(
            logits,
            Sampling(
                table.temperature[slots], table.top_p[slots], table.top_k[slots], table.seed[slots], positions
            ),
        )

    def _emit(self, slots: Ints, chosen: Ints, counts: Ints, output: StepOutput) -> None:
        """Hands out new tokens, cut at end of text and at max_tokens; frees the slots that finished."""
        table = self.table
        left = table.max_tokens[slots] - table.generated[slots]
        kept = np.minimum(counts, left)
        is_eos = (chosen == self._target.eos_token_id) & table.stops_at_eos[slots, None]
        is_eos &= np.arange(chosen.shape[1]) < kept[:, None]
        ends = is_eos.any(axis=1)
        kept = np.where(ends, is_eos.argmax(axis=1) + 1, kept)
        table.generated[slots] += kept
        self.stats.generated_tokens += int(kept.sum())
        full = table.generated[slots] >= table.max_tokens[slots]
        for slot, tokens, count, eos, at_limit in zip(
            slots.tolist(), chosen.tolist(), kept.tolist(), ends.tolist(), full.tolist(), strict=True
        ):
            output.request_ids.append(self._requests[slot].request_id)
            output.tokens.append(tokens[:count])
            output.finish.append("stop" if eos else "length" if at_limit else "")
            output.cached.append(int(table.cached[slot]))
        for slot in slots[ends | full][::-1].tolist():
            self.stats.requests += 1
            self._save_prefix(slot)
            self._release(slot)

    def _save_prefix(self, slot: int) -> None:
        """Keeps what is known for sure: a draft's entries after `pending_start` are guesses."""
        table = self.table
        known = int(min(table.length[slot], table.pending_start[slot]))
        self._prefixes.save(table.tokens[slot, :known], slot, self._caches())

    def _release(self, slot: int) -> None:
        """Frees a slot, closing the hole so that decoding slots stay first."""
        if slot < self._num_decoding:
            self._num_decoding -= 1
            self._move(self._num_decoding, slot)
            slot = self._num_decoding
        self._move(len(self._requests) - 1, slot)
        self._requests.pop()

    def _oldest_prompt(self) -> int:
        """The slot, among those being prefilled, whose request came first."""
        slots = range(self._num_decoding, len(self._requests))
        return min(slots, key=lambda slot: self._requests[slot].request_id)

    def _swap(self, one: int, other: int) -> None:
        if one != other:
            spare = self.num_slots
            self._requests.append(self._requests[one])
            self._move_row(one, spare)
            self._move(other, one)
            self._move_row(spare, other)
            self._requests[other] = self._requests.pop()

    def _move(self, source: int, target: int) -> None:
        if source != target:
            self._move_row(source, target)
            self._requests[target] = self._requests[source]

    def _move_row(self, source: int, target: int) -> None:
        entries = int(self.table.length[source]) + 1
        for cache in self._caches():
            cache.move(source, target, entries)
        self.table.move(source, target)

    def _caches(self) -> list[SlotCache]:
        draft = self._drafter.cache
        return [self._target.cache] if draft is None else [self._target.cache, draft]

    def _update_gauges(self) -> None:
        used = len(self._requests)
        self.stats.running = used
        self.stats.waiting = len(self._waiting)
        self.stats.used_tokens = int(self.table.length[:used].sum())
