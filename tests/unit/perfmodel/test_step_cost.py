import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spectune.perfmodel.step_cost import NUM_PARAMETERS, StepShape, log_step_time, log_step_time_gradient
from spectune.testing.known_surface import make_truth


def shape(batch: float, num_steps: int) -> StepShape:
    return StepShape(
        batch=np.array([[batch]]), tokens=np.array([num_steps + 1.0]), num_steps=np.array([float(num_steps)])
    )


def test_an_empty_step_takes_its_base_time() -> None:
    theta = np.array([[np.log(0.005), -30.0, 3.0, -30.0, -30.0, -30.0, 0.0, -30.0]])
    assert_allclose(np.exp(log_step_time(theta, shape(8, 3))), 0.005)


def test_each_term_adds_its_share() -> None:
    """Worked by hand: T = 1, m = 1, n0 = 8, c = 0.01, s = 0.1, d = 0.2, v = 0.3, b = 2, K = 3, n = 8."""
    logs = np.log([8, 0.01, 0.1, 0.2])
    theta = np.array([[0.0, 0.0, *logs, -0.5, np.log(0.3)]])
    by_hand = 1 + (1 - np.exp(-1)) + 0.08 + 0.2 + 0.6 + 0.6
    assert_allclose(np.exp(log_step_time(theta, shape(2, 3))), by_hand)


def test_off_has_its_own_factor() -> None:
    theta = np.array([[0.0, -30.0, 3.0, -30.0, -30.0, -30.0, np.log(0.9), -30.0]])
    assert_allclose(np.exp(log_step_time(theta, shape(4, 0))), 0.9)
    assert_allclose(np.exp(log_step_time(theta, shape(4, 1))), 1.0)


def test_verifying_costs_per_sequence_whatever_the_draft_length() -> None:
    theta = np.array([[0.0, -30.0, 3.0, -30.0, -30.0, -30.0, 0.0, np.log(0.05)]])
    assert_allclose(np.exp(log_step_time(theta, shape(10, 0))), 1.0)
    assert_allclose(np.exp(log_step_time(theta, shape(10, 1))), 1.5)
    assert_allclose(np.exp(log_step_time(theta, shape(10, 6))), 1.5)


@given(st.integers(0, 500), st.floats(1, 100), st.integers(1, 8))
def test_more_sequences_or_steps_never_take_less_time(seed: int, batch: float, steps: int) -> None:
    theta = make_truth(seed)[None, :NUM_PARAMETERS]
    now = log_step_time(theta, shape(batch, steps))
    assert log_step_time(theta, shape(batch + 1, steps)) >= now
    assert log_step_time(theta, shape(batch, steps + 1)) >= now


def test_derivatives_of_the_step_time_agree_with_differences() -> None:
    shape = StepShape(
        batch=np.array([[1.0, 8, 64]]), tokens=np.array([1.0, 4, 7]), num_steps=np.array([0.0, 3, 6])
    )
    theta = make_truth(3)[None, :NUM_PARAMETERS]
    _, gradient = log_step_time_gradient(theta, shape)
    for i in range(NUM_PARAMETERS):
        step = np.eye(NUM_PARAMETERS)[i] * 1e-6
        up, down = (log_step_time_gradient(theta + s, shape)[0] for s in (step, -step))
        assert_allclose(gradient[..., i], (up - down) / 2e-6, atol=1e-6)
