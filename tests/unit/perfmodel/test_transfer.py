from dataclasses import replace

import numpy as np
import pytest

from spectune.errors import NotEnoughData
from spectune.perfmodel.acceptance_model import curve
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import AcceptanceRow, Evidence, Setting
from spectune.perfmodel.posterior import sample
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.transfer import Transfer, re_rank, transfer_warnings, with_text
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

STEPS, LEVELS = (1, 2, 3, 4, 6), (1, 8, 64)


def world() -> Floats:
    """A deployment where about 90 % of first draft tokens are accepted."""
    theta = make_truth(0)
    theta[1:8] = -1.0, 3.0, -4.6, -5.0, -2.8, -0.1, -9.0
    theta[8:10] = 2.4, -4.0
    return theta


def lengths(odds: float) -> tuple[AcceptanceRow, ...]:
    values = curve(np.array([odds]), np.array([-4.0]), np.array(STEPS))
    return tuple(
        AcceptanceRow(setting=Setting.chain(k), workload="", acceptance_length=float(v))
        for k, v in zip(STEPS, values, strict=True)
    )


def rank(evidence: Evidence, current: int) -> tuple[Transfer, ...]:
    return re_rank(
        evidence,
        "new",
        dict.fromkeys(LEVELS, Setting.chain(current)),
        [Setting.chain(k) for k in STEPS],
        prior=DEFAULT_PRIOR,
        rng=np.random.default_rng(0),
    )


BASE = make_evidence(world(), make_cells(STEPS, LEVELS))


def test_a_text_that_is_hard_to_draft_calls_for_fewer_steps() -> None:
    for found in rank(with_text(BASE, "new", lengths(-0.6)), current=6):
        assert found.best.num_steps < 6
        assert found.verdict == "change"
        assert found.gain_ci[0] > 0


def test_a_text_like_the_old_one_keeps_the_best_setting() -> None:
    best = rank(with_text(BASE, "new", lengths(2.4)), current=4)[0].best
    assert rank(with_text(BASE, "new", lengths(2.4)), current=best.num_steps)[0].verdict == "keep"


def test_predicted_speeds_follow_the_acceptance_of_the_new_text() -> None:
    theta = world()
    theta[8] = 0.4
    cells = make_cells(STEPS, LEVELS)
    truth = np.log([r.output_tps for r in make_evidence(theta, cells).speeds])
    new = tuple(replace(c, workload="new") for c in cells)
    rng = np.random.default_rng(0)
    draws = sample(with_text(BASE, "new", lengths(0.4)), new, prior=DEFAULT_PRIOR, rng=rng)
    assert np.abs(np.median(draws.lasting, axis=0) - truth).max() < 0.05


def test_one_timed_cell_narrows_what_the_text_does() -> None:
    theta = world()
    theta[8] = 0.4
    cells = make_cells(STEPS, LEVELS)
    anchor = make_evidence(theta, cells).speeds[:1]
    new = tuple(replace(c, workload="new") for c in cells)
    spreads = []
    for timed in ((), anchor):
        evidence = with_text(BASE, "new", lengths(0.4), timed)
        draws = sample(evidence, new, prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))
        spreads.append(draws.lasting.std(axis=0).mean())
    assert spreads[1] < 0.8 * spreads[0]


def test_an_uncertain_gain_asks_for_a_measurement() -> None:
    """Two launches only, and an acceptance run of few tokens."""
    evidence = make_evidence(world(), make_cells((1, 6), (1, 64)))
    vague = tuple(replace(row, log_sd=0.3) for row in lengths(0.2)[-1:])
    assert "measure" in {t.verdict for t in rank(with_text(evidence, "new", vague), current=1)}


def test_without_acceptance_there_is_no_transfer() -> None:
    with pytest.raises(NotEnoughData, match="run its prompts once"):
        with_text(BASE, "new", ())


def test_what_acceptance_alone_cannot_tell_is_said() -> None:
    bare = replace(BASE, acceptance=())
    near, far = lengths(2.4), lengths(-2.5)
    assert any("no acceptance_length" in w for w in transfer_warnings(bare, near, (), prior=DEFAULT_PRIOR))
    assert len(transfer_warnings(BASE, near, (), prior=DEFAULT_PRIOR)) == 1
    assert any("are far from the table" in w for w in transfer_warnings(BASE, far, (), prior=DEFAULT_PRIOR))
    unsure = replace(rank(with_text(BASE, "new", near), current=4)[1], verdict="measure")
    found = transfer_warnings(BASE, near, (unsure,), prior=DEFAULT_PRIOR)
    assert "at concurrency 8" in found[-1]
