import pytest

from spectune.errors import ConfigError
from spectune.perfmodel.capacity import PoolShape, attention_cell_bytes, recurrent_state_bytes
from spectune.perfmodel.evidence import CapacityCurve, Cell, Setting
from spectune.perfmodel.pool_capacity import PoolFacts, better_limits, pool_curves

# Qwen3.5-122B-A10B over four GPUs, as in test_capacity.py: 26, 21, 17 requests at 1, 2, 3 steps.
SHAPE = PoolShape(
    state_bytes=recurrent_state_bytes(layers=36, heads=16, key_dim=128, value_dim=128, conv_values=3072 * 3),
    cell_bytes=attention_cell_bytes(layers=12, kv_heads=1, head_dim=256),
    max_requests=48,
)
FACTS = PoolFacts(shape=SHAPE, laws=("reserve_first",))


def at(curve: CapacityCurve, draft_tokens: int) -> int:
    return curve.limit(Cell(setting=Setting.chain(draft_tokens - 1), concurrency=1))


def test_one_readback_gives_every_published_capacity_and_the_one_that_was_not() -> None:
    for curve in pool_curves(FACTS, {2: 26}, {2: 455_357}, range(2, 6)):
        assert [at(curve, d) for d in (2, 3, 4, 5)] == [26, 21, 17, 12]


def test_other_readbacks_choose_between_laws() -> None:
    either = PoolFacts(shape=SHAPE)
    laws = {curve.law for curve in pool_curves(either, {2: 26, 3: 21, 4: 17}, {}, range(2, 6))}
    assert laws == {"reserve_first of the model's shape"}


def test_a_limit_near_the_real_cap_makes_room_for_longer_drafts() -> None:
    (found,) = better_limits(FACTS, {2: 26}, {2: 455_357}, [5])
    assert (found.now, found.then) == (12, 23)
    assert found.limit <= 24
    assert better_limits(PoolFacts(shape=SHAPE, laws=("joint_solve",)), {2: 24}, {2: 617_909}, [5]) == ()


def test_what_no_memory_explains_is_refused() -> None:
    with pytest.raises(ConfigError, match="one memory explains every max_running_requests"):
        pool_curves(FACTS, {2: 26, 3: 9}, {}, [5])
    with pytest.raises(ConfigError, match="law is one of reserve_first, joint_solve"):
        PoolFacts(shape=SHAPE, laws=("magic",))
