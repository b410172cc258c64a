from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.errors import ConfigError
from spectune.perfmodel.capacity import (
    PoolLaw,
    Pools,
    PoolShape,
    attention_cell_bytes,
    attention_only,
    joint_solve,
    memory_from_readback,
    recurrent_state_bytes,
    reserve_first,
    shared_pages,
    with_max_requests,
)

# Qwen3.5-122B-A10B over four GPUs: 36 gated delta net layers, 12 attention layers.
STATE = recurrent_state_bytes(layers=36, heads=16, key_dim=128, value_dim=128, conv_values=3072 * 3)
SHAPE = PoolShape(
    state_bytes=STATE,
    cell_bytes=attention_cell_bytes(layers=12, kv_heads=1, head_dim=256),
    max_requests=48,
)
ONE_STEP = Pools(requests=26, tokens=455_357)


def test_one_readback_gives_the_published_requests_and_tokens() -> None:
    for memory in memory_from_readback(reserve_first, 2, SHAPE, ONE_STEP):
        pools = [reserve_first(memory, states, SHAPE) for states in (2, 3, 4, 5)]
        assert [p.requests for p in pools] == [26, 21, 17, 12]
        assert [p.tokens for p in pools[:2]] == [455_357, 377_207]


def test_both_memories_that_explain_the_tokens_are_found() -> None:
    found = memory_from_readback(reserve_first, 2, SHAPE, ONE_STEP)
    assert [round(memory / 2**20, 1) for memory in found] == [13615.2, 13651.9]


def test_without_tokens_the_range_that_gives_the_requests_is_covered() -> None:
    found = memory_from_readback(reserve_first, 2, SHAPE, Pools(requests=26, tokens=0))
    assert [reserve_first(memory, 2, SHAPE).requests for memory in found] == [26, 26, 26]
    assert [reserve_first(memory, 5, SHAPE).requests for memory in found] == [12, 12, 13]


def test_newer_engines_share_memory_between_requests_and_drafts() -> None:
    (memory, *_) = memory_from_readback(reserve_first, 2, SHAPE, ONE_STEP)
    assert [joint_solve(memory, states, SHAPE).requests for states in (2, 3, 4, 5)] == [24, 21, 19, 17]
    assert joint_solve(memory, 2, SHAPE).tokens == 617_909


def test_a_limit_near_the_real_cap_frees_room() -> None:
    (memory, *_) = memory_from_readback(reserve_first, 2, SHAPE, ONE_STEP)
    limited = with_max_requests(SHAPE, 24)
    assert [reserve_first(memory, states, limited) for states in (4, 5)] == [
        Pools(requests=24, tokens=455_357),
        Pools(requests=23, tokens=414_719),
    ]


def test_a_readback_no_memory_explains_is_refused() -> None:
    with pytest.raises(ConfigError, match="the pools explain the read-back"):
        memory_from_readback(reserve_first, 2, SHAPE, Pools(requests=26, tokens=1))


@given(memory=st.floats(1e9, 1e11), states=st.integers(0, 9), limit=st.integers(1, 256))
def test_capacity_never_grows_with_draft_tokens(memory: float, states: int, limit: int) -> None:
    shape = with_max_requests(SHAPE, limit)
    for law in (reserve_first, joint_solve):
        assert law(memory, states + 1, shape).requests <= law(memory, states, shape).requests
    assert shared_pages(memory, states + 1, shape, request_tokens=900) <= shared_pages(
        memory, states, shape, request_tokens=900
    )
    fewer, more = (
        attention_only(total_tokens=90_000, request_tokens=500, draft_tokens=d, max_requests=limit)
        for d in (states + 1, states)
    )
    assert fewer <= more


@pytest.mark.parametrize("law", [reserve_first, joint_solve])
def test_memory_is_found_where_neighbouring_floats_are_bytes_apart(law: PoolLaw) -> None:
    shape = replace(SHAPE, state_bytes=10**12, cell_bytes=10**12, max_requests=100_000, state_share=0.001)
    found = memory_from_readback(law, 2, shape, Pools(requests=50_000, tokens=0))
    assert all(law(memory, 2, shape).requests == 50_000 for memory in found)
