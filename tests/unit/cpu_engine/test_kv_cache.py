"""Slot memory grows without losing anything, and the byte budget is spent honestly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.kv_cache import BUCKET, CacheShape, SlotCache, plan_memory


def filled() -> SlotCache:
    cache = SlotCache(CacheShape(num_slots=4, num_layers=2, num_heads=2, head_dim=4))
    rng = np.random.default_rng(0)
    for layer in cache.layers:
        for part in layer:
            part[:] = rng.normal(size=part.shape)
    return cache


def test_growing_keeps_entries_and_leaves_the_rest_zero() -> None:
    cache = filled()
    before = cache.layers[1][0].copy()
    cache.reserve(BUCKET + 1, 2, np.array([10, 5]))
    assert cache.length == 2 * BUCKET
    assert cache.generation == 1
    np.testing.assert_array_equal(cache.layers[1][0][:2, :, :10], before[:2, :, :10])
    assert not cache.layers[1][0][:, :, 10:].any()


def test_rows_shrink_only_when_less_than_half_is_needed() -> None:
    cache = filled()
    cache.reserve(4 * BUCKET, 1, np.array([3]))
    cache.reserve(3 * BUCKET, 1, np.array([3]))
    assert cache.length == 4 * BUCKET
    cache.reserve(BUCKET, 1, np.array([3]))
    assert cache.length == BUCKET


def test_gather_reads_all_before_it_writes() -> None:
    cache = filled()
    before = cache.layers[0][1].copy()
    cache.gather(np.array([1, 1]), np.array([5, 6]), np.array([6, 7]))
    np.testing.assert_array_equal(cache.layers[0][1][1, :, 6], before[1, :, 5])
    np.testing.assert_array_equal(cache.layers[0][1][1, :, 7], before[1, :, 6])


def test_a_copy_read_from_one_slot_can_be_written_to_another() -> None:
    cache = filled()
    saved = cache.read(2, 9)
    cache.write(0, saved, 7)
    np.testing.assert_array_equal(cache.layers[0][0][0, :, :7], cache.layers[0][0][2, :, :7])


@given(
    budget=st.integers(10**6, 10**9),
    context=st.integers(64, 2048),
    per_token=st.integers(100, 10_000),
    workspace=st.integers(0, 10**5),
)
def test_what_is_promised_fits_and_one_more_would_not(
    budget: int, context: int, per_token: int, workspace: int
) -> None:
    per_sequence = context * per_token + workspace
    if budget < per_sequence:
        with pytest.raises(ValueError, match="bytes of one sequence"):
            _plan(budget, context, per_token, workspace)
        return
    running = _plan(budget, context, per_token, workspace)
    assert running * per_sequence <= budget < (running + 1) * per_sequence


def _plan(budget: int, context: int, per_token: int, workspace: int) -> int:
    plan = plan_memory(
        budget,
        context_length=context,
        bytes_per_token=per_token,
        workspace_bytes=workspace,
        max_running_requests=None,
    )
    assert plan.max_total_num_tokens == plan.max_running_requests * context
    return plan.max_running_requests


def test_a_users_limit_caps_the_sequences() -> None:
    plan = plan_memory(
        10**9, context_length=64, bytes_per_token=100, workspace_bytes=0, max_running_requests=3
    )
    assert plan.max_running_requests == 3
