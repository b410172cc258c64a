from itertools import pairwise

import pytest

from spectune.domain.trial import PlannedCell
from spectune.domain.workload import LoadPlan
from spectune.testing.simulation import simulated_pool
from spectune.workloads.extra_plans import extra_plans
from spectune.workloads.load_plan import LevelSize, plan_levels

SKIP = 5
SIZES = [
    LevelSize(concurrency=level, num_requests=count, num_warmup=level, spread_s=0.1 * (level > 1))
    for level, count in ((1, 16), (4, 32), (16, 64))
]


def bodies(plans: tuple[LoadPlan, ...]) -> list[str]:
    return [request.body for plan in plans for request in plan.requests]


def fresh(*levels: int) -> list[PlannedCell]:
    return [PlannedCell(concurrency=level, part="fresh") for level in levels]


def test_fresh_prompts_are_none_of_the_searchs_and_as_many() -> None:
    pool = simulated_pool(num_prompts=400)
    search = plan_levels(pool, SIZES, skip=SKIP)
    found = extra_plans(pool, search, fresh(1, 4, 16), skip=SKIP)
    assert [(plan.concurrency, plan.part, len(plan.requests)) for plan in found] == [
        (1, "fresh", 16), (4, "fresh", 32), (16, "fresh", 64),
    ]  # fmt: skip
    used = bodies((*search, *found))
    assert len(used) == len(set(used))
    assert not set(used) & {prompt.body for prompt in pool.prompts[:SKIP]}


def test_what_is_planned_already_is_not_planned_again() -> None:
    pool = simulated_pool(num_prompts=400)
    search = plan_levels(pool, SIZES, skip=SKIP)
    first = extra_plans(pool, search, fresh(4), skip=SKIP)
    again = extra_plans(pool, (*search, *first), [PlannedCell(concurrency=4), *fresh(4, 16, 16)], skip=SKIP)
    assert [(plan.concurrency, plan.part) for plan in again] == [(16, "fresh")]
    assert not set(bodies(first)) & set(bodies(again))


def test_a_level_between_two_others_gets_a_length_between_theirs() -> None:
    pool = simulated_pool(num_prompts=400)
    search = plan_levels(pool, SIZES, skip=SKIP)
    (between,) = extra_plans(pool, search, fresh(8), skip=SKIP)
    assert len(between.requests) == 45  # sqrt(32 · 64)
    assert len(between.warmup) == 8
    assert max(request.start_after_s for request in between.requests) < 0.1
    (beyond,) = extra_plans(pool, search, fresh(40), skip=SKIP)
    assert len(beyond.requests) == 80  # two waves


def test_a_ramp_goes_from_the_lowest_level_to_the_peak_and_back() -> None:
    pool = simulated_pool(num_prompts=400)
    search = plan_levels(pool, SIZES, skip=SKIP)
    (plan,) = extra_plans(pool, search, [PlannedCell(concurrency=16, part="ramp")], skip=SKIP)
    assert plan.ramp == ((0, 1), (6, 16), (38, 1))
    assert len(plan.requests) == 44
    assert all(early < late for (early, _), (late, _) in pairwise(plan.ramp))
    assert not set(bodies((plan,))) & set(bodies(search))


@pytest.mark.parametrize("num_prompts", [150, 170, 240])
def test_too_few_prompts_shorten_a_plan_and_then_begin_again(num_prompts: int) -> None:
    pool = simulated_pool(num_prompts=num_prompts)
    search = plan_levels(pool, SIZES, skip=SKIP)
    found = extra_plans(pool, search, fresh(1, 4, 16), skip=SKIP)
    for plan in found:
        assert len(plan.requests) >= 2 * plan.concurrency
        assert len(set(bodies((plan,)))) == len(plan.requests)
    reused = set(bodies(found)) & set(bodies(search))
    assert bool(reused) == (num_prompts < 200)


def test_prompts_that_do_not_suffice_are_shared_and_some_are_left_for_later() -> None:
    pool = simulated_pool(num_prompts=250)  # the search takes 138 of them, so 112 are left, 133 are asked for
    search = plan_levels(pool, SIZES, skip=SKIP)
    found = extra_plans(pool, search, fresh(1, 4, 16), skip=SKIP)
    share = (0.85 * 112 - 21) / 112
    assert [len(plan.requests) for plan in found] == [int(16 * share), int(32 * share), int(64 * share)]
    later = extra_plans(pool, (*search, *found), fresh(2), skip=SKIP)
    assert not set(bodies(later)) & set(bodies((*search, *found)))


@pytest.mark.parametrize(
    ("levels", "num_prompts"), [((16, 32), 116), ((8, 32), 96), ((4, 8), 30), ((1, 2), 9)]
)
def test_a_ramp_fits_into_the_fewest_prompts_a_search_can_do_with(
    levels: tuple[int, int], num_prompts: int
) -> None:
    pool = simulated_pool(num_prompts=num_prompts)
    sizes = [
        LevelSize(concurrency=level, num_requests=2 * level, num_warmup=1, spread_s=0.0) for level in levels
    ]
    search = plan_levels(pool, sizes, skip=1)
    (plan,) = extra_plans(pool, search, [PlannedCell(concurrency=levels[1], part="ramp")], skip=1)
    assert len(plan.requests) + len(plan.warmup) <= num_prompts
    assert [size for _, size in plan.ramp] == [levels[0], levels[1], levels[0]]
    assert plan.ramp[-1][0] < len(plan.requests)
    assert plan.ramp[-1][0] - plan.ramp[1][0] >= levels[1]
