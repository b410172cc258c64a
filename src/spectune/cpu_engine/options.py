"""What the embedded engine is asked to run."""

from dataclasses import dataclass
from typing import Literal

from spectune.cpu_engine.schedule import Schedule

Method = Literal["off", "eagle", "draft_model", "ngram"]

MAX_STEPS = 16
MAX_TOPK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Settings of one engine process.

    Attributes:
        method: how tokens are drafted.
        num_steps: draft steps per verify step; 0 when off; the most steps of a schedule.
        topk: branches per draft step.
        num_draft_tokens: tokens verified per sequence and step, root included.
        schedule: num_steps by decoding sequences, or None for the same at every batch.
        max_running_requests: upper limit, or None for what memory allows.
        context_length: longest prompt and output together.
        cache_bytes: budget for caches, prefix cache and verification workspace.
        num_threads: compute threads.
        prefill_tokens: prompt tokens taken in per step at most.
        corrupt_every: for tests of the lossless check: spoils one token in this many that a step with
            drafts emits; 0 for none.
    """

    method: Method = "off"
    num_steps: int = 0
    topk: int = 1
    num_draft_tokens: int = 1
    schedule: Schedule | None = None
    max_running_requests: int | None = None
    context_length: int = 1024
    cache_bytes: int = 192 * 2**20
    num_threads: int = 1
    prefill_tokens: int = 128
    corrupt_every: int = 0

    @property
    def lookahead(self) -> int:
        """Cache entries a step may write past a sequence's end: draft entries, verified ones, one spare."""
        drafted = self.num_steps * self.topk
        return self.num_draft_tokens + max(drafted, self.num_draft_tokens) + 2

    @property
    def prefix_bytes(self) -> int:
        """Share of the budget that keeps finished sequences: a twelfth."""
        return self.cache_bytes // 12
