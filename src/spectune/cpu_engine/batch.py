"""Which request holds which slot: decoding ones first, then those whose prompts are being taken in."""

from spectune.cpu_engine.kv_cache import SlotCache
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.slots import SlotTable, new_slot_table


class Batch:
    """Running requests, their rows in the table and in every cache.

    Attributes:
        num_slots: requests it holds at once.
        table: their state.
        requests: by slot.
        num_decoding: slots 0 … num_decoding − 1 decode.
        caches: moved with the slots; each has one spare row at the end.
    """

    def __init__(
        self, caches: list[SlotCache], *, num_slots: int, context: int, pending_width: int, feature_size: int
    ) -> None:
        self.num_slots = num_slots
        self.table: SlotTable = new_slot_table(num_slots, context, pending_width, feature_size)
        self.requests: list[Submit] = []
        self.num_decoding = 0
        self.caches = caches

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return len(self.requests) >= self.num_slots

    @property
    def has_prompts(self) -> bool:
        """Whether a prompt is still being taken in."""
        return self.num_decoding < len(self.requests)

    def add(self, request: Submit) -> int:
        """Gives a request the next slot."""
        slot = len(self.requests)
        self.requests.append(request)
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
        return slot

    def oldest_prompt(self) -> int:
        """The slot, among those not decoding yet, whose request came first."""
        slots = range(self.num_decoding, len(self.requests))
        return min(slots, key=lambda slot: self.requests[slot].request_id)

    def begin_decoding(self, slot: int) -> int:
        """Counts a slot among the decoding ones; returns where it is now."""
        target = self.num_decoding
        if slot != target:
            waiting = self.requests[slot]
            self._move_row(slot, self.num_slots)
            self._move(target, slot)
            self._move_row(self.num_slots, target)
            self.requests[target] = waiting
        self.num_decoding += 1
        return target

    def release(self, slot: int) -> None:
        """Frees a slot, closing the hole so that decoding slots stay first."""
        if slot < self.num_decoding:
            self.num_decoding -= 1
            self._move(self.num_decoding, slot)
            slot = self.num_decoding
        self._move(len(self.requests) - 1, slot)
        self.requests.pop()

    def find(self, request_id: int) -> int | None:
        """The slot of a request, if it has one."""
        slots = (slot for slot, request in enumerate(self.requests) if request.request_id == request_id)
        return next(slots, None)

    def _move(self, source: int, target: int) -> None:
        if source != target:
            self._move_row(source, target)
            self.requests[target] = self.requests[source]

    def _move_row(self, source: int, target: int) -> None:
        entries = int(self.table.length[source]) + 1
        for cache in self.caches:
            cache.move(source, target, entries)
        self.table.move(source, target)
