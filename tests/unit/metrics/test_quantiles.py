from hypothesis import given
from hypothesis import strategies as st

from spectune.metrics.quantiles import Quantiles, quantiles


def test_the_99th_is_given_from_200_values_on() -> None:
    assert quantiles(range(199)).p99 is None
    assert quantiles(range(201)).p99 == 198


def test_absent_values_are_left_out() -> None:
    assert quantiles([None, 3.0, None, 5.0]).p50 == 4
    assert quantiles([None]) == Quantiles(p50=None, p90=None, p99=None)


@given(values=st.lists(st.floats(0, 1e6), min_size=1))
def test_quantiles_ascend_and_ignore_the_order(values: list[float]) -> None:
    found = quantiles(values)
    assert found.p50 is not None
    assert found.p90 is not None
    assert min(values) <= found.p50 <= found.p90 <= max(values)
    assert quantiles(sorted(values)) == quantiles(sorted(values, reverse=True))
