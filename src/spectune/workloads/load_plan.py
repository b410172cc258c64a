"""The decided list of requests per level: same prompts, same order for every setting, none repeated."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.workload import LoadPlan, PlannedRequest
from spectune.errors import ConfigError
from spectune.workloads.prompts import Prompt, PromptPool

WARMUP_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSize:
    """How much is sent at one level.

    Attributes:
        concurrency: requests kept in flight.
        num_requests: counted requests, at least the concurrency.
        num_warmup: requests sent before and not counted; short ones.
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
    needed = skip + sum(size.num_warmup + size.num_requests for size in sizes)
    if needed > len(pool.prompts):
        levels = ", ".join(str(size.concurrency) for size in sizes)
        raise ConfigError(
            f"workload {pool.spec.name}: `distinct prompts >= {needed}` must hold for concurrency {levels}, "
            f"got {len(pool.prompts)}; add prompts or give lower levels with --concurrency."
        )
    plans: list[LoadPlan] = []
    place = skip
    for size in sizes:
        warmup = pool.prompts[place : place + size.num_warmup]
        place += size.num_warmup
        counted = pool.prompts[place : place + size.num_requests]
        place += size.num_requests
        plans.append(_plan(size, warmup, counted))
    return tuple(plans)


def pilot_requests(prompts: Sequence[Prompt]) -> tuple[PlannedRequest, ...]:
    """Requests for a first look at a server's speed, all free to start at once."""
    return tuple(_planned(index, prompt) for index, prompt in enumerate(prompts))


def _plan(size: LevelSize, warmup: Sequence[Prompt], counted: Sequence[Prompt]) -> LoadPlan:
    step_s = size.spread_s / size.concurrency
    return LoadPlan(
        concurrency=size.concurrency,
        warmup=tuple(_planned(index, _shortened(prompt)) for index, prompt in enumerate(warmup)),
        requests=tuple(
            _planned(index, prompt, start_after_s=step_s * index if index < size.concurrency else 0.0)
            for index, prompt in enumerate(counted)
        ),
    )


def _planned(index: int, prompt: Prompt, start_after_s: float = 0.0) -> PlannedRequest:
    return PlannedRequest(
        index=index,
        path=prompt.path,
        body=prompt.body,
        max_tokens=prompt.max_tokens,
        start_after_s=start_after_s,
    )


def _shortened(prompt: Prompt) -> Prompt:
    """The same prompt with at most 16 output tokens: enough to warm a server up."""
    max_tokens = min(prompt.max_tokens, WARMUP_TOKENS)
    body = json.loads(prompt.body)
    key = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    body[key] = max_tokens
    return Prompt(path=prompt.path, body=json.dumps(body, ensure_ascii=False), max_tokens=max_tokens)
