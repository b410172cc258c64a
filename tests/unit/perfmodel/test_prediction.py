from collections.abc import Callable

import numpy as np

from spectune.perfmodel.evidence import Evidence, SpeedRow
from spectune.perfmodel.prediction import CI_LEVEL, Prediction
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

Predict = Callable[[Evidence, tuple[int, ...], tuple[int, ...]], Prediction]


def test_measured_cells_are_told_from_predicted_ones(published: Prediction) -> None:
    flags = {(c.cell.setting.num_steps, c.cell.concurrency): c.is_measured for c in published.surface}
    assert flags[4, 16]
    assert not flags[1, 16]
    assert [c.output_tps for c in published.surface if c.cell.concurrency == 1] == [122.9, 182.7, 234, 277]


def test_lifting_capacity_is_said_to_bring_back_more_steps(published: Prediction) -> None:
    (cost,) = [c for c in published.capacity_costs if c.concurrency == 64]
    assert cost.running == 17
    assert cost.free_winner.num_steps == 4
    assert cost.gain_ci[0] > 0


def test_winners_are_probable_and_cost_little(published: Prediction) -> None:
    assert [w.cell.setting.num_steps for w in published.winners] == [4, 4, 3, 3]
    assert all(w.probability > 0.9 and w.expected_loss < 0.01 for w in published.winners)


def test_an_unmeasured_winner_is_never_certain(of: Predict) -> None:
    theta = make_truth(0)
    theta[8:10] = 4.0, -6.0  # nearly all accepted: more steps are better
    prediction = of(make_evidence(theta, make_cells((1, 2), (1, 4))), (1, 2, 6), (1,))
    (winner,) = prediction.winners
    assert winner.cell.setting.num_steps == 6
    assert not winner.is_measured
    assert winner.probability <= 0.95


def test_intervals_hold_the_stated_share_of_repeats(of: Predict) -> None:
    theta = make_truth(9)
    cells = make_cells((1, 2, 4), (1, 8, 64))
    prediction = of(make_evidence(theta, cells), (1, 2, 4), (1, 8, 64))
    truth = {r.cell: r.output_tps for r in make_evidence(theta, cells).speeds}
    inside = [c.output_tps_ci[0] <= truth[c.cell] <= c.output_tps_ci[1] for c in prediction.surface]
    assert np.mean(inside) >= CI_LEVEL


def test_texts_are_answered_apart(of: Predict) -> None:
    rows = [
        SpeedRow(cell=type(c)(setting=c.setting, concurrency=c.concurrency, workload=w), output_tps=y)
        for w, factor in (("chat", 1.0), ("code", 1.3))
        for c, y in (
            (r.cell, r.output_tps * factor)
            for r in make_evidence(make_truth(2), make_cells((1, 4), (1, 8))).speeds
        )
    ]
    prediction = of(Evidence(speeds=tuple(rows)), (1, 4), (1, 8))
    assert {(w.cell.workload, w.cell.concurrency) for w in prediction.winners} == {
        ("chat", 1), ("chat", 8), ("code", 1), ("code", 8),
    }  # fmt: skip
