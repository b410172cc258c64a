import numpy as np
import pytest

from spectune.perfmodel.evidence import Evidence, Setting
from spectune.perfmodel.prediction import Prediction, predict
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


def test_the_crossover_of_the_published_table_is_found_with_its_cause(published: Prediction) -> None:
    (crossover,) = published.crossovers
    assert (crossover.before.num_steps, crossover.after.num_steps) == (4, 3)
    assert 4 <= crossover.concurrency[0] <= crossover.concurrency[1] <= 16
    assert crossover.cause == "capacity"


def test_verification_cost_makes_the_best_draft_shorter_without_a_limit() -> None:
    theta = make_truth(0)
    theta[1:6] = -6.0, 3.0, -4.0, -8.0, -4.0  # arithmetic only
    theta[7:9] = 1.2, -3.0
    prediction = of(make_evidence(theta, make_cells((1, 2, 4, 6), (1, 8, 64))), (1, 2, 4, 6), (1, 8, 64))
    depths = [w.cell.setting.num_steps for w in prediction.winners]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1]
    assert {c.cause for c in prediction.crossovers} == {"verification cost"}
    assert prediction.capacity_costs == ()


def test_settings_within_a_tie_do_not_change_places() -> None:
    """Two settings whose lead of 0.4 % changes sign are one answer, not a crossover."""
    theta = make_truth(0)
    theta[1:6] = -6.0, 3.0, -9.0, -8.0, -2.0
    theta[7:9] = 0.4, -3.0
    prediction = of(make_evidence(theta, make_cells((1, 2), (1, 8, 64))), (1, 2), (1, 8, 64))
    assert prediction.crossovers == ()
