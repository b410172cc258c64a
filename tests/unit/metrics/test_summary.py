from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.measurement import LevelMeasurement, SpecCounters
from spectune.metrics.summary import settle_levels, summarise_level
from spectune.testing.records import level_measurement, request_record

COUNTERS = SpecCounters(
    verify_steps=100,
    undrafted_steps=0,
    drafted_tokens=300,
    accepted_tokens=150,
    accepted_per_position=(80, 50, 20),
)


def level(num_requests: int = 8, concurrency: int = 2) -> LevelMeasurement:
    """Two slots, a request every second per slot, 50 tokens each."""
    records = [
        request_record(
            index=index,
            sent_at_s=(start := index // concurrency + 0.5 * (index % concurrency)),
            chunk_times_s=[start + 0.1 + 0.018 * step for step in range(51)],
            output_tokens=50,
            ended_at_s=start + 1.0,
        )
        for index in range(num_requests)
    ]
    return level_measurement(records, concurrency=concurrency, counters=COUNTERS)


def test_speed_is_running_sequences_times_tokens_per_step_over_step_time() -> None:
    summary = summarise_level(level())
    assert summary.mean_running is not None
    assert summary.tokens_per_step is not None
    assert summary.step_s is not None
    assert summary.output_tps == pytest.approx(
        summary.mean_running * summary.tokens_per_step / summary.step_s
    )
    assert summary.tokens_per_step == 4
    assert summary.mean_running == pytest.approx(1.8, rel=0.1)


@given(seed=st.integers(0, 1000))
def test_the_order_of_records_does_not_matter(seed: int) -> None:
    given_level = level()
    order = np.random.default_rng(seed).permutation(len(given_level.records))
    shuffled = replace(given_level, records=tuple(given_level.records[place] for place in order))
    one, other = summarise_level(given_level), summarise_level(shuffled)
    assert other.output_tps == pytest.approx(one.output_tps)
    assert (other.ttft_s, other.tpot_s, other.e2e_s) == (one.ttft_s, one.tpot_s, one.e2e_s)


def test_failed_requests_are_counted_and_kept_out_of_latencies() -> None:
    failed = request_record(index=8, sent_at_s=0, chunk_times_s=(500.0,), output_tokens=None, error="lost")
    base = level()
    summary = summarise_level(replace(base, records=(*base.records, failed)))
    assert (summary.errors, summary.num_requests) == (1, 9)
    assert summary.ttft_s == summarise_level(base).ttft_s


def test_a_level_that_failed_entirely_has_no_figures() -> None:
    failed = [request_record(index=i, chunk_times_s=(), output_tokens=None, error="x") for i in range(3)]
    summary = summarise_level(level_measurement(failed))
    assert (summary.request_tps, summary.step_s, summary.ttft_s.p50) == (None, None, None)


def test_counters_that_cannot_be_true_give_no_acceptance() -> None:
    broken = replace(level(), counters=replace(COUNTERS, accepted_tokens=1000))
    summary = summarise_level(broken)
    assert (summary.acceptance_length, summary.step_s) == (None, None)
    assert summary.accepted_tokens == 1000


def test_a_busy_machine_disturbs_and_an_unknown_one_does_not() -> None:
    assert summarise_level(replace(level(), foreign_cpu_share=0.11)).disturbed
    assert not summarise_level(replace(level(), foreign_cpu_share=0.10)).disturbed
    assert not summarise_level(replace(level(), foreign_cpu_share=None)).disturbed


def test_of_two_measurements_the_less_disturbed_is_taken() -> None:
    first, second = (
        replace(level(), foreign_cpu_share=0.5),
        replace(level(), foreign_cpu_share=0.2, attempt=1),
    )
    worse = replace(second, foreign_cpu_share=0.7)
    other = replace(level(), concurrency=1)
    assert settle_levels([second, first, other]) == (other, second)
    assert settle_levels([first, worse]) == (first,)


def test_a_measurement_with_foreign_requests_comes_last_however_quiet_the_machine() -> None:
    visited = replace(level(), counters=replace(COUNTERS, generated_tokens=1_000_000), foreign_cpu_share=0.0)
    alone = replace(level(), foreign_cpu_share=0.3, attempt=1)
    assert settle_levels([visited, alone]) == (alone,)
    first = replace(alone, attempt=0)
    assert settle_levels([first, replace(visited, attempt=1)]) == (first,)
