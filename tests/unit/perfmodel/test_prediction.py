import numpy as np
import pytest

from spectune.perfmodel.evidence import Evidence, Setting, SpeedRow
from spectune.perfmodel.prediction import CI_LEVEL, Prediction, predict
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.table import evidence_of, parse_table
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

# Qwen3.5-122B, four settings, capacity read back at three (published).
PUBLISHED = """
num_steps,concurrency,output_tps,metric,max_running_requests
1,1,122.9,request_tps,26
2,1,182.7,request_tps,21
3,1,234,request_tps,17
4,1,277,request_tps,
1,4,119,request_tps,26
2,4,162,request_tps,21
3,4,200,request_tps,17
4,4,236,request_tps,
3,16,1733,output_tps,17
4,16,1596,output_tps,
1,64,1566,output_tps,26
2,64,1844,output_tps,21
3,64,1914,output_tps,17
4,64,1817,output_tps,
"""


def of(evidence: Evidence, steps: tuple[int, ...], levels: tuple[int, ...]) -> Prediction:
    settings = [Setting.chain(k) for k in steps]
    return predict(evidence, settings, levels, prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def published() -> Prediction:
    rows = parse_table(PUBLISHED, "published.csv").rows
    return of(evidence_of(rows, range(2, 6)), (1, 2, 3, 4), (1, 4, 16, 64))


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


def test_an_unmeasured_winner_is_never_certain() -> None:
    theta = make_truth(0)
    theta[7:9] = 4.0, -6.0  # nearly all accepted: more steps are better
    prediction = of(make_evidence(theta, make_cells((1, 2), (1, 4))), (1, 2, 6), (1,))
    (winner,) = prediction.winners
    assert winner.cell.setting.num_steps == 6
    assert not winner.is_measured
    assert winner.probability <= 0.95


def test_intervals_hold_the_stated_share_of_repeats() -> None:
    theta = make_truth(9)
    cells = make_cells((1, 2, 4), (1, 8, 64))
    prediction = of(make_evidence(theta, cells), (1, 2, 4), (1, 8, 64))
    truth = {r.cell: r.output_tps for r in make_evidence(theta, cells).speeds}
    inside = [c.output_tps_ci[0] <= truth[c.cell] <= c.output_tps_ci[1] for c in prediction.surface]
    assert np.mean(inside) >= CI_LEVEL


def test_texts_are_answered_apart() -> None:
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
