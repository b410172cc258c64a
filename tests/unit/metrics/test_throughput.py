import numpy as np
import pytest

from spectune.metrics.steady_state import Window
from spectune.metrics.throughput import output_speed, request_tps
from spectune.testing.records import request_record


def test_only_tokens_inside_the_window_count() -> None:
    record = request_record(chunk_times_s=(0, 100), output_tokens=1000)
    speed = output_speed([record], Window(start_s=20, end_s=40))
    assert speed.tps == pytest.approx(10)
    assert speed.interval == pytest.approx((10, 10))


def test_a_window_with_few_tokens_has_no_interval() -> None:
    record = request_record(chunk_times_s=(0, 10), output_tokens=99)
    assert output_speed([record], Window(start_s=0, end_s=10)).interval is None


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        times_s = np.cumsum(rng.exponential(0.01, 2000))  # 100 tokens per second, at random
        record = request_record(
            chunk_times_s=times_s.tolist(), chunk_tokens=range(1, 2001), output_tokens=2000
        )
        interval = output_speed([record], Window(start_s=0, end_s=15)).interval
        assert interval is not None
        held += interval[0] <= 100 <= interval[1]
    assert 0.91 <= held / 400 <= 0.98


def test_a_requests_speed_is_over_its_whole_time_and_the_median_counts() -> None:
    records = [
        request_record(sent_at_s=0, chunk_times_s=(1, 2), output_tokens=10),
        request_record(sent_at_s=0, chunk_times_s=(1, 2), output_tokens=20),
        request_record(sent_at_s=0, chunk_times_s=(1, 2), output_tokens=90),
        request_record(sent_at_s=0, chunk_times_s=(1, 2), output_tokens=900, error="lost"),
    ]
    assert request_tps(records) == 10
    assert request_tps([]) is None
