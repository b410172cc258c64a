import numpy as np
import pytest

from spectune.testing.known_surface import CAPPED, make_cells, make_evidence, make_truth

CELLS = make_cells((0, 2, 4), (1, 32))


def test_equal_seeds_give_equal_truth() -> None:
    assert np.array_equal(make_truth(3), make_truth(3))
    assert not np.array_equal(make_truth(3), make_truth(4))


def test_noise_is_of_the_size_asked_for() -> None:
    many = make_cells(range(1, 9), range(1, 60))
    clean, noisy = (make_evidence(make_truth(1), many, noise=sd) for sd in (0.0, 0.02))
    gaps = [np.log(a.output_tps / b.output_tps) for a, b in zip(noisy.speeds, clean.speeds, strict=True)]
    assert np.std(gaps) == pytest.approx(0.02, rel=0.1)


def test_capacity_slows_only_what_exceeds_it() -> None:
    free = make_evidence(make_truth(1), CELLS)
    capped = make_evidence(make_truth(1), CELLS, capacity=CAPPED)
    pairs = zip(free.speeds, capped.speeds, strict=True)
    slower = {a.cell for a, b in pairs if b.output_tps < a.output_tps * 0.999}
    assert slower == {c for c in CELLS if c.concurrency == 32 and c.setting.num_steps > 0}


def test_off_has_no_acceptance() -> None:
    assert {r.setting.num_steps for r in make_evidence(make_truth(1), CELLS).acceptance} == {2, 4}
    assert make_evidence(make_truth(1), CELLS, has_acceptance=False).acceptance == ()
