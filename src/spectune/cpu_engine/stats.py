"""Counters of the engine. Counts only; whoever reads them derives rates."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Stats:
    """Cumulative counters and momentary gauges.

    Attributes:
        verify_steps: sequences × verification forwards that had a draft.
        undrafted_steps: sequences × decode forwards without one.
        drafted_tokens: draft tokens verified; the root is not one.
        accepted_tokens: draft tokens accepted; the bonus token is not one.
        accepted_per_position: accepted tokens by depth, first depth first.
        generated_tokens: output tokens emitted.
        prompt_tokens: prompt tokens taken in.
        cached_tokens: prompt tokens found in the prefix cache.
        requests: requests finished, cancelled ones not counted.
        running: sequences that hold a slot.
        waiting: requests that wait for one.
        used_tokens: cache entries in use.
    """

    verify_steps: int = 0
    undrafted_steps: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    running: int = 0
    waiting: int = 0
    used_tokens: int = 0

    def count_step(self, drafted: NDArray[np.int64], accepted: NDArray[np.int64]) -> None:
        """Counts one decode step: draft tokens verified and accepted of each sequence [batch]."""
        had_draft = int((drafted > 0).sum())
        self.verify_steps += had_draft
        self.undrafted_steps += len(drafted) - had_draft
        self.drafted_tokens += int(drafted.sum())
        self.accepted_tokens += int(accepted.sum())
        reached = np.bincount(accepted, minlength=1)[::-1].cumsum()[::-1]
        for depth, count in enumerate(reached[1:]):
            if depth == len(self.accepted_per_position):
                self.accepted_per_position.append(0)
            self.accepted_per_position[depth] += int(count)
