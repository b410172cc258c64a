"""The decided list of requests per level: same prompts, same order for every setting, none repeated."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.workload import LoadPlan
from spectune.workloads.prompts import PromptPool


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSize:
    """How much is sent at one level.

    Attributes:
        concurrency: requests kept in flight.
        num_requests: counted requests, at least the concurrency.
        num_warmup: requests sent before and not counted.
        spread_s: the level's slots start evenly over this time.
    """

    concurrency: int
    num_requests: int
    num_warmup: int
    spread_s: float


def plan_levels(pool: PromptPool, sizes: Sequence[LevelSize], *, skip: int = 0) -> tuple[LoadPlan, ...]:
    """One plan per size; no prompt is used twice in all of them.

    Args:
        pool: where the prompts come from.
        sizes: one per level, in the order the levels are measured.
        skip: prompts at the head of the pool that were used before (the pilot's).

    Raises:
        ConfigError: the pool has too few prompts.
    """
    raise NotImplementedError(pool, sizes, skip)
