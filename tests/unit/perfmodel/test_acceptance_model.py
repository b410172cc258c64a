import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

from spectune.errors import NotEnoughData
from spectune.perfmodel.acceptance_model import (
    PositionCounts,
    chain_estimate,
    counter_sum,
    curve,
    curve_gradient,
    shorter_drafts,
)
from spectune.perfmodel.arrays import Floats


def simulate(rates: tuple[float, ...], steps: int, tokens: int, seed: int) -> PositionCounts:
    """A text whose tokens are easy or hard in runs, drafted `steps` at a time."""
    rng = np.random.default_rng(seed)
    rate = np.repeat(rng.choice(rates, size=tokens // 8 + 4), 8)
    hits = rng.random(len(rate)) < rate
    place, rounds, accepted = 0, 0, [0] * steps
    while place < tokens:
        run = 0
        while run < steps and hits[place + run]:
            accepted[run] += 1
            run += 1
        rounds += 1
        place += run + 1
    return PositionCounts(verify_steps=rounds, accepted=tuple(accepted))


def length(counts: PositionCounts) -> float:
    return counter_sum(counts, len(counts.accepted))


def test_constant_acceptance_is_a_geometric_sum() -> None:
    odds = np.array([math.log(0.7 / 0.3)])
    got = curve(odds, np.array([-30.0]), np.array([3]))
    assert got == pytest.approx(1 + 0.7 + 0.49 + 0.343)


def test_a_sum_that_ends_early_is_the_whole_sum_to_its_last_digits() -> None:
    odds, decay, longest = np.array([3.0, -2.0, 9.0]), np.array([-3.0, 0.5, -40.0]), np.array([1000])
    log_a, log_r = -np.logaddexp(0.0, -odds), -np.exp(decay)
    j = np.arange(1, 1001)[:, None]
    terms = np.exp(j * log_a + 0.5 * j * (j - 1) * log_r)
    by_odds = (j * (1.0 - np.exp(log_a)) * terms).sum(axis=0)
    by_decay = (0.5 * j * (j - 1) * log_r * terms).sum(axis=0)
    assert curve(odds, decay, longest) == pytest.approx(1.0 + terms.sum(axis=0), rel=1e-12)
    got = curve_gradient(odds, decay, longest)
    assert got[0] == pytest.approx(1.0 + terms.sum(axis=0), rel=1e-12)
    assert got[1] == pytest.approx(by_odds, rel=1e-10)
    assert got[2] == pytest.approx(by_decay, rel=1e-10, abs=1e-12)


def test_off_emits_one_token_per_step() -> None:
    assert curve(np.array([1.0]), np.array([-2.0]), np.array([0])) == pytest.approx(1.0)


@given(st.floats(-4, 6), st.floats(-6, 1), st.integers(1, 8))
def test_acceptance_length_is_bounded_and_grows_with_steps(odds: float, decay: float, steps: int) -> None:
    values = curve(np.array([odds]), np.array([decay]), np.arange(steps + 1))
    assert np.all(np.diff(values) >= 0)
    assert 1.0 < values[-1] <= steps + 1


@given(st.floats(-3, 4), st.floats(-5, 0), st.integers(1, 8))
def test_derivatives_agree_with_differences(odds: float, decay: float, steps: int) -> None:
    at = (np.array([odds]), np.array([decay]), np.array([steps]))
    _, by_odds, by_decay = curve_gradient(*at)
    h = 1e-5
    near = [curve(at[0] + a * h, at[1] + b * h, at[2])[0] for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    assert by_odds[0] == pytest.approx((near[0] - near[1]) / (2 * h), abs=1e-5)
    assert by_decay[0] == pytest.approx((near[2] - near[3]) / (2 * h), abs=1e-5)


def test_the_counters_of_a_long_draft_are_biased_low_for_short_ones_and_the_correction_helps() -> None:
    rates = (0.95, 0.45)
    long = simulate(rates, 8, 199_000, seed=1)
    for steps in (1, 2, 3):
        truth = length(simulate(rates, steps, 199_000, seed=1))
        naive = counter_sum(long, steps)
        (row,) = shorter_drafts(long, workload="", num_steps=[steps])
        assert naive < truth
        assert abs(row.acceptance_length - truth) < abs(naive - truth)
        assert abs(math.log(row.acceptance_length / truth)) < 2.5 * row.log_sd


def test_the_longest_draft_is_read_as_it_is() -> None:
    counts = PositionCounts(verify_steps=100, accepted=(80, 50, 20))
    (row,) = shorter_drafts(counts, workload="w", num_steps=[3, 7])
    assert row.acceptance_length == pytest.approx(2.5)
    assert row.workload == "w"


def test_the_chain_estimate_of_the_full_length_is_the_counter_sum() -> None:
    counts = PositionCounts(verify_steps=1000, accepted=(800, 500, 200))
    assert chain_estimate(counts, 3) == pytest.approx(counter_sum(counts, 3))


def test_a_draft_that_is_never_rejected_fills_every_step() -> None:
    assert chain_estimate(PositionCounts(verify_steps=9, accepted=(9, 9)), 1) == 2.0


@pytest.mark.parametrize(("steps", "accepted"), [(0, (0,)), (5, ()), (5, (3, 4)), (5, (6,))])
def test_counts_that_cannot_be_are_refused(steps: int, accepted: tuple[int, ...]) -> None:
    with pytest.raises(NotEnoughData, match="acceptance counters"):
        PositionCounts(verify_steps=steps, accepted=accepted)


def test_the_form_predicts_public_curves_from_two_lengths() -> None:
    """19 curves, known at K = 1 and 4: mean error elsewhere below 2.5 %, well under constant acceptance's."""
    path = Path(__file__).parents[3] / "benchmarks" / "planner" / "acceptance_curves.json"
    errors: dict[str, list[float]] = {"falling": [], "constant": []}
    for one in json.loads(path.read_text(encoding="utf-8"))["curves"]:
        lengths = dict(zip(one["num_steps"], one["acceptance_length"], strict=True))
        others = np.array([k for k in lengths if k not in (1, 4)])
        truth = np.array([lengths[k] for k in others])
        for form, start in (("falling", [1.0, -3.0]), ("constant", [1.0])):
            found = least_squares(two_lengths_missed, start, args=(lengths[1], lengths[4])).x
            odds, decay = found[:1], found[1:] if len(found) > 1 else np.array([-30.0])
            errors[form].append(float(np.abs(curve(odds, decay, others) / truth - 1).mean()))
    assert len(errors["falling"]) == 19
    assert np.mean(errors["falling"]) < 0.025
    assert np.mean(errors["falling"]) < 0.6 * np.mean(errors["constant"])


def two_lengths_missed(found: Floats, at_one: float, at_four: float) -> Floats:
    decay = found[1:] if len(found) > 1 else np.array([-30.0])
    return np.asarray(np.log(curve(found[:1], decay, np.array([1, 4])) / np.array([at_one, at_four])))
