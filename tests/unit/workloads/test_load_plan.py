import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.errors import ConfigError
from spectune.testing.simulation import simulated_pool
from spectune.workloads.load_plan import LevelSize, pilot_requests, plan_levels

POOL = simulated_pool(num_prompts=150)
SIZES = st.lists(
    st.tuples(st.integers(1, 8), st.integers(0, 8), st.integers(0, 4)).map(
        lambda sizes: LevelSize(
            concurrency=sizes[0], num_requests=sizes[0] + sizes[1], num_warmup=sizes[2], spread_s=0.8
        )
    ),
    min_size=1,
    max_size=6,
)


@given(sizes=SIZES, skip=st.integers(0, 10))
def test_no_prompt_is_sent_twice_in_an_arm(sizes: list[LevelSize], skip: int) -> None:
    plans = plan_levels(POOL, sizes, skip=skip)
    sent = [json.loads(request.body)["prompt"] for plan in plans for request in plan.warmup + plan.requests]
    piloted = [json.loads(prompt.body)["prompt"] for prompt in POOL.prompts[:skip]]
    assert len({*sent, *piloted}) == len(sent) + skip
    assert [len(plan.requests) for plan in plans] == [size.num_requests for size in sizes]


def test_the_first_requests_start_one_after_the_other_and_the_rest_when_a_slot_is_free() -> None:
    (plan,) = plan_levels(POOL, [LevelSize(concurrency=4, num_requests=6, num_warmup=2, spread_s=0.8)])
    assert [request.start_after_s for request in plan.requests] == pytest.approx([0, 0.2, 0.4, 0.6, 0, 0])
    assert [request.index for request in plan.requests] == list(range(6))


def test_warm_up_requests_are_short() -> None:
    (plan,) = plan_levels(POOL, [LevelSize(concurrency=1, num_requests=1, num_warmup=3, spread_s=0)])
    assert all(json.loads(request.body)["max_tokens"] == 16 for request in plan.warmup)
    assert json.loads(plan.requests[0].body)["max_tokens"] == 24


def test_too_few_prompts_are_refused_with_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"distinct prompts >= 161.*got 150"):
        plan_levels(POOL, [LevelSize(concurrency=1, num_requests=160, num_warmup=1, spread_s=0)])


def test_pilot_requests_may_all_start_at_once() -> None:
    assert all(request.start_after_s == 0 for request in pilot_requests(POOL.prompts[:3]))
