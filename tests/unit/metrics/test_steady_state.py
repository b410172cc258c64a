import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.measurement import RequestRecord
from spectune.metrics.steady_state import Window, mean_running, steady_window, tokens_until
from spectune.testing.records import request_record


def span(sent_at_s: float, ended_at_s: float) -> RequestRecord:
    return request_record(sent_at_s=sent_at_s, chunk_times_s=(sent_at_s, ended_at_s))


def test_the_window_runs_from_all_slots_busy_to_the_first_idle_slot() -> None:
    records = [span(0, 4), span(1, 3), span(3, 6), span(4, 8)]
    assert steady_window(records, 2) == Window(start_s=1, end_s=6)


def test_a_slot_that_ends_before_the_last_slot_starts_delays_the_window() -> None:
    records = [span(0, 1), span(2, 6), span(3, 7)]
    assert steady_window(records, 2) == Window(start_s=3, end_s=6)


def test_one_slot_is_busy_from_first_send_to_last_end() -> None:
    assert steady_window([span(0, 1), span(1.5, 3)], 1) == Window(start_s=0, end_s=3)


def test_there_is_no_window_when_the_slots_were_never_all_busy() -> None:
    assert steady_window([span(0, 1), span(2, 3)], 2) is None
    assert steady_window([span(0, 1)], 2) is None
    assert steady_window([], 1) is None


@given(
    spans=st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 50)), min_size=1, max_size=30),
    concurrency=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_the_order_of_records_does_not_matter(
    spans: list[tuple[float, float]], concurrency: int, seed: int
) -> None:
    records = [span(start, start + length) for start, length in spans]
    shuffled = [records[place] for place in np.random.default_rng(seed).permutation(len(records))]
    assert steady_window(records, concurrency) == steady_window(shuffled, concurrency)


def test_tokens_arrive_with_their_chunks_where_the_engine_counts_them() -> None:
    record = request_record(chunk_times_s=(1, 2, 4), chunk_tokens=(1, 4, 5), output_tokens=6)
    assert tokens_until([record], np.array([0.5, 1.0, 3.0, 4.0])).tolist() == [0, 1, 4, 6]


def test_tokens_are_spread_evenly_where_it_does_not() -> None:
    record = request_record(chunk_times_s=(1, 1.1, 3), output_tokens=8)
    assert tokens_until([record], np.array([1.0, 2.0, 3.0, 9.0])).tolist() == [0, 4, 8, 8]


def test_a_single_chunk_brings_all_its_tokens_at_once() -> None:
    record = request_record(chunk_times_s=(2,), output_tokens=5)
    assert tokens_until([record], np.array([1.9, 2.0])).tolist() == [0, 5]


@given(tokens=st.lists(st.integers(1, 5), min_size=1, max_size=20), is_continuous=st.booleans())
def test_in_the_end_every_token_has_arrived(tokens: list[int], is_continuous: bool) -> None:
    counts = np.cumsum(tokens).tolist()
    record = request_record(
        chunk_times_s=[float(place) for place in range(len(counts))],
        chunk_tokens=counts if is_continuous else (),
        output_tokens=counts[-1],
    )
    assert tokens_until([record], np.array([1e9])).tolist() == [counts[-1]]


def test_a_queued_request_is_not_running() -> None:
    records = [
        request_record(sent_at_s=0, chunk_times_s=(0, 10)),
        request_record(sent_at_s=0, chunk_times_s=(5, 10)),
    ]
    assert mean_running(records, Window(start_s=0, end_s=10)) == pytest.approx(1.5)
