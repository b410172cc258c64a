from hypothesis import given
from hypothesis import strategies as st

from spectune.report import numbers


@given(st.floats(min_value=0.01, max_value=1e6))
def test_a_rate_is_rounded_by_less_than_half_a_percent(value: float) -> None:
    assert abs(float(numbers.rate(value)) - value) <= max(0.005 * value, 0.005) + 1e-12


@given(st.floats(min_value=0, max_value=1e6))
def test_more_time_never_reads_as_less(value_s: float) -> None:
    def seconds(text: str) -> float:
        units = {"h": 3600, "min": 60, "s": 1}
        words = text.split()
        return sum(float(n) * units[u] for n, u in zip(words[::2], words[1::2], strict=True))

    assert abs(seconds(numbers.duration(value_s)) - value_s) <= max(60, 0.02 * value_s)


def test_what_is_missing_is_a_dash_everywhere() -> None:
    functions = (numbers.rate, numbers.milliseconds, numbers.ratio, numbers.per_step, numbers.count)
    assert {function(None) for function in functions} == {"–"}


def test_no_boundary_gives_four_digits() -> None:
    assert numbers.rate(9.999) == "10.0"
    assert numbers.milliseconds(0.09999) == "100"
    assert numbers.percent(0.09999) == "10%"


def test_a_percentage_that_rounds_to_nothing_has_no_minus() -> None:
    assert numbers.percent(-0.0001, signed=True) == "+0.0%"
