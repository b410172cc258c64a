from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.measurement import SpecCounters
from spectune.testing.study_values import make_record

COUNTS = st.integers(min_value=0, max_value=10**9)


@given(COUNTS, COUNTS)
def test_counters_since_a_reading_are_what_was_counted_after_it(then: int, more: int) -> None:
    def counters(count: int) -> SpecCounters:
        return SpecCounters(
            verify_steps=count, undrafted_steps=2 * count, drafted_tokens=3 * count, accepted_tokens=count,
            accepted_per_position=(count, count // 2), generated_tokens=count,
        )  # fmt: skip

    difference = counters(then + more).since(counters(then))
    assert (difference.verify_steps, difference.undrafted_steps) == (more, 2 * more)
    assert difference.accepted_per_position[0] == more
    assert difference.generated_tokens == more


def test_positions_that_appear_later_count_from_nothing() -> None:
    before = SpecCounters(verify_steps=1, undrafted_steps=0, drafted_tokens=1, accepted_tokens=1)
    after = SpecCounters(
        verify_steps=3, undrafted_steps=0, drafted_tokens=5, accepted_tokens=4, accepted_per_position=(3, 1),
        generated_tokens=9,
    )  # fmt: skip
    difference = after.since(before)
    assert difference.accepted_per_position == (3, 1)
    assert difference.generated_tokens is None


def test_a_request_is_ok_only_with_tokens_counted_by_the_engine() -> None:
    record = make_record(0, sent_at_s=0.0, duration_s=1.0, tokens=5)
    assert record.is_ok
    assert not replace(record, output_tokens=None).is_ok
    assert not replace(record, error="500").is_ok
    assert not replace(record, chunk_times_s=()).is_ok
