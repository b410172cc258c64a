import pytest

from spectune.errors import ConfigError
from spectune.perfmodel.capacity import (
    PoolShape,
    attention_cell_bytes,
    recurrent_state_bytes,
    with_max_requests,
)
from spectune.perfmodel.evidence import CapacityCurve, Cell, Setting
from spectune.perfmodel.pool_capacity import LAWS, PoolFacts, better_limits, facts_of, pool_curves

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


@pytest.mark.parametrize("law", ["reserve_first", "joint_solve"])
@pytest.mark.parametrize("draft_tokens", [1, 2, 4, 7])
def test_the_best_limit_is_that_of_trying_every_one(law: str, draft_tokens: int) -> None:
    memory = 13_615.2 * 2**20
    facts = PoolFacts(shape=SHAPE, laws=(law,))
    now = LAWS[law](memory, 2, SHAPE).requests
    tried = [
        (LAWS[law](memory, 0 if draft_tokens == 1 else draft_tokens, with_max_requests(SHAPE, limit)), limit)
        for limit in range(1, SHAPE.max_requests + 1)
    ]
    most = max(pools.requests for pools, _ in tried)
    first = min(limit for pools, limit in tried if pools.requests == most)
    at_now = LAWS[law](memory, 0 if draft_tokens == 1 else draft_tokens, SHAPE).requests
    found = better_limits(facts, {2: now}, {2: LAWS[law](memory, 2, SHAPE).tokens}, [draft_tokens])
    assert [(one.limit, one.then) for one in found] == ([(first, most)] if most > at_now else [])


def test_the_largest_limit_is_answered_without_trying_every_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(shape: PoolShape, limit: int) -> PoolShape:
        asked.append(limit)
        return with_max_requests(shape, limit)

    monkeypatch.setattr("spectune.perfmodel.pool_capacity.with_max_requests", counted)
    shape = with_max_requests(SHAPE, 100_000)
    assert better_limits(PoolFacts(shape=shape), {2: 26}, {}, [2, 5])
    assert 2 < len(asked) < 200


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("state_bytes", 0.5, "state_bytes is a whole number >= 1`"),
        ("cell_bytes", 0.5, "cell_bytes is a whole number >= 1`"),
        ("slots_per_request", 0.5, "slots_per_request is a whole number >= 1`"),
        ("state_bytes", 1e300, "state_bytes <= 1000000000000`"),
        ("cell_bytes", 10**400, "cell_bytes is a number`"),
        ("state_share", 5e-324, "0.001 <= state_share <= 1000`"),
        ("state_share", 1e300, "0.001 <= state_share <= 1000`"),
        ("max_requests", 10**9, "max_requests <= 100000`"),
        ("max_requests", True, "max_requests is a number`"),
        ("max_requests", None, "max_requests is a number`"),
        ("law", [["x"] * 999], "law is one of"),
    ],
)
def test_a_shape_out_of_bounds_is_refused(key: str, value: object, message: str) -> None:
    good = {"state_bytes": 38_412_288, "cell_bytes": 12_288, "max_requests": 48}
    assert facts_of(good, "t pools").shape.max_requests == 48
    with pytest.raises(ConfigError, match=message) as caught:
        facts_of({**good, key: value}, "t pools")
    assert len(str(caught.value)) < 200
