import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.planning.levels import first_levels, is_cheap, worthwhile

SEVEN = (1, 2, 4, 8, 16, 32, 64)
CHEAP, DEAR = (300.0, 60.0), (60.0, 60.0)


def test_few_levels_are_always_measured() -> None:
    assert first_levels((1, 4, 16, 64), DEAR) == (1, 4, 16, 64)
    assert worthwhile((1, 4, 16, 64), np.zeros(4), DEAR) == (1, 4, 16, 64)


def test_many_levels_are_measured_where_a_restart_costs_more() -> None:
    assert first_levels(SEVEN, CHEAP) == SEVEN
    assert first_levels(SEVEN, DEAR) == (1, 8, 64)
    assert first_levels(SEVEN, None) == (1, 8, 64)
    assert first_levels((1, 8, 64, 128), None) == (1, 8, 64, 128)


def test_levels_without_value_are_left_out_where_measuring_is_dear() -> None:
    values = np.array([0.1, 0.1, 0.08, 0.0, 0.0, 0.0, 0.0])
    assert worthwhile(SEVEN, values, DEAR) == (1, 2, 4)
    assert worthwhile(SEVEN, values, CHEAP) == SEVEN


@given(
    values=st.lists(st.floats(0.0, 1.0), min_size=5, max_size=7),
    restart_s=st.floats(0.0, 10.0),
    bench_s=st.floats(20.0, 100.0),
)
def test_no_other_set_of_levels_has_more_value_per_second(
    values: list[float], restart_s: float, bench_s: float
) -> None:
    levels, costs = SEVEN[: len(values)], (restart_s, bench_s)
    assert not is_cheap(levels, costs)
    kept = worthwhile(levels, np.array(values), costs)
    rate = sum(values[levels.index(level)] for level in kept) / (restart_s + bench_s * len(kept))
    ordered = sorted(values, reverse=True)
    best = max(sum(ordered[:n]) / (restart_s + bench_s * n) for n in range(1, len(values) + 1))
    assert rate == pytest.approx(best)
