import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.metrics.latency import e2e_s, tpot_s, ttft_s
from spectune.testing.records import request_record


@given(
    sent_at_s=st.floats(0, 1000),
    gaps_s=st.lists(st.floats(0.001, 10), min_size=2, max_size=40),
    tokens_per_chunk=st.integers(1, 5),
)
def test_first_and_per_token_times_add_up_to_the_last_chunk(
    sent_at_s: float, gaps_s: list[float], tokens_per_chunk: int
) -> None:
    times_s = [sent_at_s + sum(gaps_s[: place + 1]) for place in range(len(gaps_s))]
    tokens = tokens_per_chunk * len(times_s)
    record = request_record(sent_at_s=sent_at_s, chunk_times_s=times_s, output_tokens=tokens)
    first, per_token = ttft_s(record), tpot_s(record)
    assert first is not None
    assert per_token is not None
    assert first + per_token * (tokens - 1) == pytest.approx(times_s[-1] - sent_at_s)
    assert first <= e2e_s(record)


def test_one_token_has_no_time_per_token() -> None:
    assert tpot_s(request_record(chunk_times_s=(1,), output_tokens=1)) is None
    assert tpot_s(request_record(output_tokens=None)) is None


def test_a_request_without_content_has_no_first_chunk() -> None:
    assert ttft_s(request_record(chunk_times_s=())) is None
