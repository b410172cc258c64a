import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectune.perfmodel.evidence import CapacityCurve, Evidence, Setting
from spectune.perfmodel.fitting import layout_of
from spectune.perfmodel.posterior import Posterior, hypotheses_of, sample
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

LEVELS = (1, 4, 16, 64)
TARGET = make_cells((2, 3), (2, 8, 32))


def draw(evidence: Evidence, seed: int = 0) -> Posterior:
    return sample(evidence, TARGET, prior=DEFAULT_PRIOR, rng=np.random.default_rng(seed))


def width(posterior: Posterior) -> float:
    low, _, high = posterior.quantiles(0.8)
    return float(np.log(high / low).mean())


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 1000))
def test_intervals_widen_with_less_data(seed: int) -> None:
    """Mean of four truths: single posteriors of 200 draws are noisy by some percent."""
    data = [make_cells(k, c) for k, c in (((0, 1, 2, 4, 6), LEVELS), ((1, 4), LEVELS), ((4,), (1, 64)))]
    rows = [
        [width(draw(make_evidence(make_truth(one), cells, has_acceptance=False))) for cells in data]
        for one in range(seed, seed + 4)
    ]
    full, pair, single = np.log(rows).mean(axis=0)
    assert full < pair < single


def test_draws_do_not_depend_on_the_order_of_rows() -> None:
    evidence = make_evidence(make_truth(1), make_cells((1, 4), LEVELS))
    other = Evidence(speeds=evidence.speeds[::-1], acceptance=evidence.acceptance[::-1])
    assert np.array_equal(draw(evidence).lasting, draw(other).lasting)


def test_equal_seeds_give_equal_draws_and_others_do_not() -> None:
    evidence = make_evidence(make_truth(1), make_cells((1, 4), LEVELS))
    assert np.array_equal(draw(evidence, 5).measured, draw(evidence, 5).measured)
    assert not np.array_equal(draw(evidence, 5).measured, draw(evidence, 6).measured)


def test_intervals_cover_what_they_say() -> None:
    """Truth drawn as the prior has it, effects included: 80 % intervals cover 70 to 90 % of 240 cells."""
    hits = []
    rng = np.random.default_rng(11)
    for seed in range(40):
        theta = make_truth(seed)
        cells = (*make_cells((1, 4), LEVELS), *TARGET)
        full = make_evidence(theta, cells, has_acceptance=False)
        far = sample(Evidence(speeds=full.speeds[:1]), cells, prior=DEFAULT_PRIOR, rng=rng, num_draws=2)
        effect = far.measured[0] - far.formula(cells)[0]
        speeds = [r.output_tps * np.exp(e) for r, e in zip(full.speeds, effect, strict=True)]
        rows = [type(r)(cell=r.cell, output_tps=float(y)) for r, y in zip(full.speeds, speeds, strict=True)]
        low, _, high = draw(Evidence(speeds=tuple(rows[: -len(TARGET)])), seed).quantiles(0.8)
        truth = np.array(speeds[-len(TARGET) :])
        hits += list((low <= truth) & (truth <= high))
    assert 0.70 <= np.mean(hits) <= 0.92


def test_speeds_decide_between_capacity_laws() -> None:
    """Both laws allow what was read back at two draft tokens; only one explains the flat speeds at five."""
    narrow, wide = (
        CapacityCurve(law=law, weight=1.0, running=(("", 2, 26), ("", 3, 21), ("", 4, 17), ("", 5, last)))
        for law, last in (("narrow", 8), ("wide", 16))
    )
    theta = make_truth(3)
    evidence = make_evidence(theta, make_cells((1, 2, 3, 4), (1, 4, 8, 12, 16, 64)), capacity=narrow)
    both = Evidence(speeds=evidence.speeds, acceptance=evidence.acceptance, capacity=(narrow, wide))
    chances = {
        law: sum(
            h.probability
            for h in hypotheses_of(both, layout_of(both), DEFAULT_PRIOR)
            if h.capacity is not None and h.capacity.law == law
        )
        for law in ("narrow", "wide")
    }
    assert chances["narrow"] > 0.9
    assert sum(chances.values()) == pytest.approx(1.0)


def test_the_formula_without_its_limits_is_never_slower() -> None:
    cells = make_cells((1, 4), (1, 64))
    capped = CapacityCurve(law="x", weight=1.0, running=(("", 2, 20), ("", 5, 10)))
    evidence = make_evidence(make_truth(2), cells, capacity=capped)
    draws = sample(evidence, cells, prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))
    now = draws.formula(cells)
    assert np.all(draws.formula(cells, is_limited=False) >= now - 1e-9)
    assert np.all(draws.formula(cells, is_verification_free=True) >= now - 1e-9)
    assert np.all(draws.formula(cells, is_all_accepted=True) >= now - 1e-9)


def test_off_unlike_the_curve_is_found_to_be_so() -> None:
    """An off a little over half as fast as the formula says is no matter of what verifying costs."""
    evidence = make_evidence(make_truth(6), make_cells((0, 1, 4), LEVELS))
    odd = tuple(
        type(r)(cell=r.cell, output_tps=r.output_tps / (1.8 if r.cell.setting == Setting.chain(0) else 1.0))
        for r in evidence.speeds
    )
    usual = DEFAULT_PRIOR.scales.off

    def share_unusual(one: Evidence) -> float:
        found = hypotheses_of(one, layout_of(one), DEFAULT_PRIOR)
        return sum(h.probability for h in found if h.prior.scales.off > usual)

    assert share_unusual(Evidence(speeds=odd)) > share_unusual(Evidence(speeds=evidence.speeds)) + 0.3
