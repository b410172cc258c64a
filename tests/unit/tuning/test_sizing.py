import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.tuning.sizing import PilotReading, least_prompts, size_levels
from spectune.workloads.load_plan import LevelSize

LEVELS = (1, 4, 16, 32)
READINGS = (
    PilotReading(concurrency=1, output_tps=700, mean_output_tokens=96),
    PilotReading(concurrency=32, output_tps=4000, mean_output_tokens=96),
)


def size(budget_s: float | None = 200.0, num_prompts: int = 1500) -> tuple[LevelSize, ...]:
    return size_levels(
        READINGS, LEVELS, budget_s=budget_s, num_settings=9, launch_s=1.5, num_prompts=num_prompts
    )


def expected_s(sizes: tuple[LevelSize, ...]) -> float:
    """What one setting takes at the pilot's speed, warm-up and drain included."""
    speeds: dict[int, float] = {
        1: 700.0,
        4: 700.0 * (4000 / 700) ** 0.4,
        16: 700 * (4000 / 700) ** 0.8,
        32: 4000.0,
    }
    return sum(
        (s.num_requests + s.concurrency / 2) * 96 / speeds[s.concurrency]
        + s.num_warmup * 16 / speeds[s.concurrency]
        for s in sizes
    )


def test_the_default_study_fills_its_budget_and_does_not_pass_it() -> None:
    whole_s = 9 * (expected_s(size()) + 1.5 + 0.5)
    assert 190 <= whole_s <= 200.5


def test_thorough_has_200_requests_and_8_waves() -> None:
    assert [s.num_requests for s in size(budget_s=None)] == [200, 200, 200, 256]


@given(
    budget_s=st.floats(0.1, 2000),
    num_prompts=st.integers(1, 3000),
    tps=st.floats(1, 10_000),
    growth=st.floats(1, 30),
)
def test_levels_have_two_waves_and_stay_within_the_prompts(
    budget_s: float, num_prompts: int, tps: float, growth: float
) -> None:
    readings = (
        PilotReading(concurrency=1, output_tps=tps, mean_output_tokens=96),
        PilotReading(concurrency=32, output_tps=tps * growth, mean_output_tokens=96),
    )
    sizes = size_levels(
        readings, LEVELS, budget_s=budget_s, num_settings=9, launch_s=1, num_prompts=num_prompts
    )
    assert all(s.num_requests >= 2 * s.concurrency for s in sizes)
    if num_prompts >= 2 * sum(LEVELS) + len(LEVELS):
        assert sum(s.num_requests + s.num_warmup for s in sizes) <= num_prompts


def test_a_budget_that_is_too_small_still_gives_three_waves() -> None:
    assert [s.num_requests for s in size(budget_s=1.0)] == [12, 12, 48, 96]


def test_too_few_prompts_shorten_all_levels_alike_first() -> None:
    full, cut = size(), size(num_prompts=400)
    assert sum(s.num_requests + s.num_warmup for s in cut) <= 400
    assert all(0 < short.num_requests <= long.num_requests for short, long in zip(cut, full, strict=True))


def test_starts_are_spread_over_a_third_of_a_request() -> None:
    sizes = size()
    assert sizes[0].spread_s == 0
    assert sizes[3].spread_s == pytest.approx(32 * 96 / 4000 / 3)


def test_one_reading_serves_all_levels() -> None:
    sizes = size_levels(READINGS[:1], (1,), budget_s=20, num_settings=2, launch_s=1, num_prompts=1000)
    assert sizes[0].num_requests == pytest.approx((17 / 2 - 16 / 700) * 700 / 96, abs=1)


def test_the_fewest_prompts_are_two_waves_and_one_to_warm_up() -> None:
    assert least_prompts((1, 4)) == 2 + 1 + 8 + 1
    levels = size_levels(
        [PilotReading(concurrency=1, output_tps=100.0, mean_output_tokens=10.0)], (1, 4),
        budget_s=None, num_settings=1, launch_s=1.0, num_prompts=least_prompts((1, 4)),
    )  # fmt: skip
    assert sum(level.num_requests + level.num_warmup for level in levels) == least_prompts((1, 4))
