import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.measurement import SpecCounters
from spectune.domain.study import SearchSpace, Study
from spectune.domain.trial import Trial
from spectune.domain.workload import LoadPlan
from spectune.errors import StoreError
from spectune.storage.codec import from_json, pack_floats, pack_ints, to_json, unpack_floats, unpack_ints
from spectune.testing.study_values import make_plan, make_study, make_trial


def test_nested_values_come_back_equal() -> None:
    assert from_json(Study, to_json(make_study())) == make_study()
    assert from_json(LoadPlan, to_json(make_plan(4))) == make_plan(4)
    assert from_json(Trial, to_json(make_trial(1, 3))) == make_trial(1, 3)


def test_optional_fields_come_back() -> None:
    value = SpecCounters(verify_steps=1, undrafted_steps=0, drafted_tokens=3, accepted_tokens=2)
    assert from_json(SpecCounters, to_json(value)) == value


def test_fields_an_older_row_lacks_take_their_defaults() -> None:
    assert from_json(SearchSpace, '{"method": "eagle", "num_steps": [0, 1]}') == SearchSpace(
        method="eagle", num_steps=(0, 1)
    )


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        '{"method": "eagle"}',
        '{"method": "eagle", "num_steps": [0], "unknown": 1}',
        '{"method": 5, "num_steps": [0]}',
        '{"method": "eagle", "num_steps": ["0"]}',
        '{"method": "eagle", "num_steps": [true]}',
        '{"method": "eagle", "num_steps": 3}',
    ],
)
def test_damaged_rows_are_named(text: str) -> None:
    with pytest.raises(StoreError, match="stored SearchSpace"):
        from_json(SearchSpace, text)


def test_a_word_outside_a_literal_is_refused() -> None:
    with pytest.raises(StoreError, match="not one of"):
        from_json(Trial, to_json(make_trial(1, 3)).replace('"setting"', '"guess"'))


@given(st.lists(st.floats(allow_nan=False)))
def test_floats_are_exact(values: list[float]) -> None:
    assert unpack_floats(pack_floats(tuple(values))) == tuple(values)


@given(st.lists(st.integers(min_value=0, max_value=2**32 - 1)))
def test_ints_are_exact(values: list[int]) -> None:
    assert unpack_ints(pack_ints(tuple(values))) == tuple(values)
