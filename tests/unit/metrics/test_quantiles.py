from hypothesis import given
from hypothesis import strategies as st

from spectune.metrics.quantiles import Quantiles, quantiles, stand_in


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


def test_a_quantile_that_the_sample_does_not_bear_is_judged_by_its_p90() -> None:
    few, many = quantiles(map(float, range(199))), quantiles(map(float, range(200)))
    assert stand_in(few, "p99") == ("p90", few.p90)
    assert stand_in(many, "p99") == ("p99", many.p99)
    assert stand_in(few, "p50") == ("p50", few.p50)
    assert stand_in(quantiles([]), "p99") is None
