"""The engine: admits requests, takes prompts in, decodes a batch. `step` shows the whole of it."""

from collections import deque

import numpy as np

from spectune.cpu_engine.batch import Batch
from spectune.cpu_engine.decoder import Decoder, choose_tokens
from spectune.cpu_engine.drafter import Drafter
from spectune.cpu_engine.kv_cache import Floats
from spectune.cpu_engine.messages import StepOutput, Submit
from spectune.cpu_engine.prefix_cache import PrefixCache
from spectune.cpu_engine.slots import Ints
from spectune.cpu_engine.stats import Stats
from spectune.cpu_engine.target import Target


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
        self._lookahead = lookahead
        self._first_pending = 0 if target.feature_size else 1  # a head pairs feature i with token i + 1
        self._prefixes = PrefixCache(prefix_bytes)
        self._prefill_tokens = prefill_tokens
        self._batch = Batch(
            [target.cache] if drafter.cache is None else [target.cache, drafter.cache],
            num_slots=target.num_slots,
            context=target.context_length + lookahead,
            pending_width=num_draft_tokens,
            feature_size=target.feature_size,
        )
        self.num_slots = target.num_slots
        self.table = self._batch.table
        self.stats = Stats()
        self._waiting: deque[Submit] = deque()
        self._decoder = Decoder(
            target,
            drafter,
            self.table,
            self.stats,
            first_pending=self._first_pending,
            corrupt_every=corrupt_every,
        )

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._waiting or self._batch.requests)

    def submit(self, request: Submit) -> None:
        """Queues a request."""
        self._waiting.append(request)

    def cancel(self, request_id: int) -> None:
        """Forgets a request and frees its slot at once; unknown ones are ignored."""
        self._waiting = deque(r for r in self._waiting if r.request_id != request_id)
        slot = self._batch.find(request_id)
        if slot is not None:
            self._batch.release(slot)
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
        if self._batch.has_prompts:
            self._prefill(output)
        if self._batch.num_decoding:
            self._decode(output)
        self._update_gauges()
        return output

    def _admit(self) -> list[int]:
        """Gives waiting requests free slots; returns those slots."""
        admitted = []
        while self._waiting and not self._batch.is_full:
            admitted.append(self._batch.add(self._waiting.popleft()))
        return admitted

    def _reuse_prefix(self, slot: int) -> None:
        prompt = self.table.tokens[slot, : len(self._batch.requests[slot].prompt)]
        cached = self._prefixes.restore(prompt, slot, self._batch.caches)
        self.table.length[slot] = cached
        self.table.cached[slot] = cached
        self.stats.cached_tokens += cached

    def _reserve(self) -> None:
        """Makes cache rows long enough for whatever this step may write."""
        used = len(self._batch.requests)
        if not used:
            return
        lengths = self.table.length[:used].copy()
        prompts = [len(request.prompt) for request in self._batch.requests[self._batch.num_decoding :]]
        needed = max(int(lengths.max()), max(prompts, default=0)) + self._lookahead
        for cache in self._batch.caches:
            kept = np.minimum(lengths + self._lookahead, cache.length)
            cache.reserve(needed, used, kept)

    def _prefill(self, output: StepOutput) -> None:
        """Takes in chunks of the oldest prompts, up to the step's limit of tokens."""
        left = self._prefill_tokens
        while left > 0 and self._batch.has_prompts:
            slot = self._batch.oldest_prompt()
            prompt = self._batch.requests[slot].prompt
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
        table.root[slot] = choose_tokens(
            self.table, logits, np.array([slot]), np.array([len(self._batch.requests[slot].prompt)])
        )[0]
        slot = self._batch.begin_decoding(slot)
        length = int(table.length[slot])
        table.tokens[slot, length] = table.root[slot]
        table.pending_ids[slot, 0] = table.root[slot]
        table.pending_valid[slot] = 1
        table.pending_start[slot] = length - 1 + self._first_pending
        self._emit(np.array([slot]), table.root[slot : slot + 1, None], np.array([1]), output)

    def _decode(self, output: StepOutput) -> None:
        batch = self._batch.num_decoding
        chosen, accepted = self._decoder.step(batch)
        self._emit(np.arange(batch), chosen, accepted + 1, output)

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
            output.request_ids.append(self._batch.requests[slot].request_id)
            output.tokens.append(tokens[:count])
            output.finish.append("stop" if eos else "length" if at_limit else "")
            output.cached.append(int(table.cached[slot]))
        for slot in slots[ends | full][::-1].tolist():
            self.stats.requests += 1
            self._save_prefix(slot)
            self._batch.release(slot)

    def _save_prefix(self, slot: int) -> None:
        """Keeps what is known for sure: a draft's entries after `pending_start` are guesses."""
        table = self.table
        known = int(min(table.length[slot], table.pending_start[slot]))
        self._prefixes.save(table.tokens[slot, :known], slot, self._batch.caches)

    def _update_gauges(self) -> None:
        used = len(self._batch.requests)
        self.stats.running = used
        self.stats.waiting = len(self._waiting)
        self.stats.used_tokens = int(self.table.length[:used].sum())
