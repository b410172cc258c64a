import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spectune.errors import NotEnoughData
from spectune.perfmodel.acceptance_model import curve
from spectune.perfmodel.evidence import Evidence
from spectune.perfmodel.fitting import best, layout_of, problem_of, surface_of
from spectune.perfmodel.posterior import sample
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.step_cost import NUM_PARAMETERS
from spectune.testing.known_surface import CAPPED, make_cells, make_evidence, make_truth

FULL = make_cells((0, 1, 2, 3, 4, 6), (1, 2, 4, 8, 16, 32, 64))
HELD_OUT = make_cells((0, 2, 3, 5), (1, 3, 12, 48))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
@example(257, True)  # the farthest of seeds 0 to 399
def test_the_fit_recovers_the_surface_and_acceptance_that_generated_its_data(
    seed: int, is_capped: bool
) -> None:
    """Off is left to the next test: what the fit leaves to off's own curve is no part of the formula."""
    theta = make_truth(seed)
    data = make_evidence(theta, FULL, capacity=CAPPED if is_capped else None)
    layout = layout_of(data)
    found = best(problem_of(data, layout, DEFAULT_PRIOR, data.capacity or (None,)))
    surface = surface_of(HELD_OUT, layout, data.capacity or (None,))
    gap = surface.log_speed(found) - surface.log_speed(theta[None])
    is_speculating = np.array([not cell.setting.is_off for cell in HELD_OUT])
    assert np.sqrt((gap**2).mean()) < 0.03
    assert np.abs(gap[:, is_speculating]).max() < 0.04
    assert abs(np.exp(found[0, 0] - theta[0]) - 1) < 0.15  # T itself: the step with nothing in it
    lengths = [curve(t[7:8], t[8:9], np.arange(1, 7)) for t in (found[0], theta)]
    assert_allclose(lengths[0], lengths[1], rtol=0.02)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
@example(257, True)
def test_what_is_predicted_recovers_every_cell_off_too(seed: int, is_capped: bool) -> None:
    theta = make_truth(seed)
    data = make_evidence(theta, FULL, capacity=CAPPED if is_capped else None)
    truth = surface_of(HELD_OUT, layout_of(data), data.capacity or (None,)).log_speed(theta[None])[0]
    draws = sample(data, HELD_OUT, prior=DEFAULT_PRIOR, rng=np.random.default_rng(seed))
    assert np.abs(draws.lasting.mean(axis=0) - truth).max() < 0.04


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.05, 2.0))
def test_more_acceptance_never_predicts_less_speed(seed: int, more: float) -> None:
    theta = make_truth(seed)[None]
    better = theta.copy()
    better[:, NUM_PARAMETERS] += more
    surface = surface_of(FULL, layout_of(make_evidence(theta[0], FULL)), (None,))
    assert np.all(surface.log_speed(better) >= surface.log_speed(theta))


@given(st.permutations(range(12)))
@settings(max_examples=10, deadline=None)
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    data = make_evidence(make_truth(5), make_cells((0, 1, 4), (1, 4, 16, 64)))
    shuffled = Evidence(speeds=tuple(data.speeds[i] for i in order), acceptance=data.acceptance[::-1])
    fits = [best(problem_of(e, layout_of(e), DEFAULT_PRIOR, (None,))) for e in (data, shuffled)]
    assert np.array_equal(fits[0], fits[1])


def test_speed_stops_growing_above_capacity() -> None:
    cells = make_cells((4,), (8, 20, 32, 64))
    surface = surface_of(cells, layout_of(make_evidence(make_truth(1), cells)), (CAPPED,))
    speeds = surface.log_speed(make_truth(1)[None])[0]
    assert speeds[0] < speeds[1] == speeds[2] == speeds[3]


def test_nothing_measured_is_refused() -> None:
    empty = Evidence(speeds=())
    with pytest.raises(NotEnoughData, match="at least one measured speed"):
        problem_of(empty, layout_of(empty), DEFAULT_PRIOR, (None,))
