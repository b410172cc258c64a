"""Requests that run at once, as a function of draft tokens. Caps the batch that step_cost sees.

Symbols
    R      memory left for pools after weights, one GPU                        bytes
    S      recurrent state of one sequence, one GPU                            bytes
    cell   keys and values of one token, one GPU                               bytes
    D      recurrent states kept per running request for verification:
           draft tokens, root included; 0 when speculation is off              1
    M      limit on running requests that was asked for                        1
    rho    share of state memory over share of token memory (0.9)              1
    ratio  state slots per running request: 5 with radix cache and overlap,
           4 without overlap, 1 without radix cache                            1
    slots  state slots the pool holds                                          1

Sources: SGLang 0.5.10-0.5.12.post1 `model_runner_kv_cache_mixin.py:78-131` (reserve_first), >= 0.5.13
`kv_cache_configurator.py:3229-3409` (joint_solve); vLLM `v1/kv_cache_interface.py:1076-1082` (state pages).
All laws are floors of decreasing functions of D: capacity never grows with draft tokens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from spectune.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """What sizes the pools of a model with recurrent layers.

    Attributes:
        state_bytes: S.
        cell_bytes: cell.
        max_requests: M.
        slots_per_request: ratio.
        state_share: rho.
    """

    state_bytes: int
    cell_bytes: int
    max_requests: int
    slots_per_request: int = 5
    state_share: float = 0.9

    @property
    def state_fraction(self) -> float:
        """Share of the memory that goes to states: rho ÷ (1 + rho)."""
        return self.state_share / (1.0 + self.state_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """What an engine has room for."""

    requests: int
    tokens: int


PoolLaw = Callable[[float, int, PoolShape], Pools]


def recurrent_state_bytes(*, layers: int, heads: int, key_dim: int, value_dim: int, conv_values: int) -> int:
    """S of a gated delta net: per layer a float32 state per head and a bf16 convolution window.

    >>> recurrent_state_bytes(layers=36, heads=16, key_dim=128, value_dim=128, conv_values=3072 * 3)
    38412288
    """
    return layers * (heads * key_dim * value_dim * 4 + conv_values * 2)


def attention_cell_bytes(*, layers: int, kv_heads: int, head_dim: int, value_bytes: int = 2) -> int:
    """Bytes of one token's keys and values.

    >>> attention_cell_bytes(layers=12, kv_heads=1, head_dim=256)
    12288
    """
    return layers * 2 * kv_heads * head_dim * value_bytes


def reserve_first(memory: float, states: int, shape: PoolShape) -> Pools:
    """SGLang 0.5.10-0.5.12: verification states are reserved for all M requests, whatever runs.

    rest = R − M·S·D; slots = ⌊rho/(1+rho)·rest ÷ S⌋; requests = min(M, slots // ratio);
    tokens = (rest − slots·S) ÷ cell.
    """
    rest = memory - shape.max_requests * shape.state_bytes * states
    slots = max(0, math.floor(shape.state_fraction * rest / shape.state_bytes))
    requests = min(shape.max_requests, slots // shape.slots_per_request)
    tokens = math.floor((rest - slots * shape.state_bytes) / shape.cell_bytes)
    return Pools(requests=requests, tokens=max(0, tokens))


def joint_solve(memory: float, states: int, shape: PoolShape) -> Pools:
    """SGLang >= 0.5.13: verification states are counted for the requests that will run.

    slots = ⌊(rho/(1+rho)·R − S·(1 + D)) ÷ (S·(1 + D ÷ ratio))⌋; requests = min(M, slots // ratio);
    tokens = (R − S·(requests + 1)·D − (slots + 1)·S) ÷ cell.
    """
    size, ratio = shape.state_bytes, shape.slots_per_request
    budget = shape.state_fraction * memory - size * (1 + states)
    slots = max(0, math.floor(budget / (size * (1.0 + states / ratio))))
    requests = min(shape.max_requests, slots // ratio)
    left = memory - size * (requests + 1) * states - (slots + 1) * size
    return Pools(requests=requests, tokens=max(0, math.floor(left / shape.cell_bytes)))


def shared_pages(memory: float, states: int, shape: PoolShape, *, request_tokens: int) -> int:
    """VLLM with recurrent layers: states and tokens share one pool; a request holds max(1, D) states.

    requests = min(M, ⌊R ÷ (max(1, D)·S + request_tokens·cell)⌋).
    """
    per_request = max(1, states) * shape.state_bytes + request_tokens * shape.cell_bytes
    return min(shape.max_requests, math.floor(memory / per_request))


def attention_only(*, total_tokens: int, request_tokens: int, draft_tokens: int, max_requests: int) -> int:
    """Requests of a model without recurrent layers: each holds its text and the tokens under verification.

    >>> attention_only(total_tokens=40_000, request_tokens=996, draft_tokens=4, max_requests=64)
    40
    """
    return min(max_requests, total_tokens // (request_tokens + draft_tokens))


def memory_from_readback(law: PoolLaw, states: int, shape: PoolShape, seen: Pools) -> tuple[float, ...]:
    """Every R (middle of its narrow range) that explains what an engine said of one launch.

    Tokens given: for each number of slots that gives the requests, R follows from the tokens; those that give
    both again are kept. Tokens 0 (unknown): the ends and the middle of the range that gives the requests.

    Raises:
        ConfigError: when the law cannot give what was read: a wrong law, shape or limit.
    """
    low = _smallest_memory(law, states, shape, seen.requests)
    high = _smallest_memory(law, states, shape, seen.requests + 1)
    found: tuple[float, ...] = (low, 0.5 * (low + high), math.nextafter(high, 0.0))
    if seen.tokens > 0:
        found = _memory_from_tokens(law, states, shape, seen, (low, high))
    if not found or seen.requests >= shape.max_requests:
        raise ConfigError(
            f"capacity: `the pools explain the read-back` must hold, got {seen.requests} requests "
            f"and {seen.tokens} tokens at {states} draft tokens; check the engine version, "
            "the model's shape and max_requests."
        )
    return found


def with_max_requests(shape: PoolShape, max_requests: int) -> PoolShape:
    """The same pools under another limit on running requests: the lever that costs nothing."""
    return replace(shape, max_requests=max_requests)


def _smallest_memory(law: PoolLaw, states: int, shape: PoolShape, requests: int) -> float:
    """Least R that gives so many requests, by bisection: requests never fall when memory grows."""
    low, high = 0.0, float(shape.state_bytes)
    while law(high, states, shape).requests < min(requests, shape.max_requests):
        high *= 2.0
    return _first(low, high, 1.0, lambda memory: law(memory, states, shape).requests >= requests)


def _first(low: float, high: float, width: float, holds: Callable[[float], bool]) -> float:
    """Upper end of the narrowed bounds inside which `holds` becomes true, by bisection.

    It ends at `width`, or where no float lies between the bounds: above 2^53 they are more than 1 apart.
    """
    middle = 0.5 * (low + high)
    while high - low > width and low < middle < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
        middle = 0.5 * (low + high)
    return high


def _memory_from_tokens(
    law: PoolLaw, states: int, shape: PoolShape, seen: Pools, bounds: tuple[float, float]
) -> tuple[float, ...]:
    """R values inside the bounds where the law gives the tokens; they rise with R between slot counts."""
    low, high = bounds
    found: list[float] = []
    pieces = 16 * shape.slots_per_request
    for piece in range(pieces):
        left = low + (high - low) * piece / pieces
        right = low + (high - low) * (piece + 1) / pieces
        for guess in _crossings(law, states, shape, seen.tokens, (left, right)):
            middle = guess + 0.5 * shape.cell_bytes
            if law(middle, states, shape) == seen and all(abs(middle - f) > shape.cell_bytes for f in found):
                found.append(middle)
    return tuple(found)


def _crossings(
    law: PoolLaw, states: int, shape: PoolShape, tokens: int, bounds: tuple[float, float]
) -> tuple[float, ...]:
    """Where tokens first reach the value inside the bounds, on either side of a slot jump, by bisection."""
    left, right = bounds
    starts = [left]
    jump = _slot_jump(law, states, shape, bounds)
    if jump is not None:
        starts = [left, jump]
    found = []
    for begin, end in zip(starts, [*starts[1:], right], strict=True):
        width = 0.25 * shape.cell_bytes
        found.append(_first(begin, end, width, lambda at: law(at, states, shape).tokens >= tokens))
    return tuple(found)


def _slot_jump(law: PoolLaw, states: int, shape: PoolShape, bounds: tuple[float, float]) -> float | None:
    """Where the tokens drop because one more slot fits, or None."""
    low, high = bounds
    slope = 1.0 / shape.cell_bytes
    start = law(low, states, shape).tokens

    def has_dropped(at: float) -> bool:
        return law(at, states, shape).tokens < start + (at - low) * slope - 2.0

    if not has_dropped(high):
        return None
    return _first(low, high, 1.0, has_dropped)
