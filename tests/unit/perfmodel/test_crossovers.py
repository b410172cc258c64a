from collections.abc import Callable

from spectune.perfmodel.evidence import Evidence
from spectune.perfmodel.prediction import Prediction
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

Predict = Callable[[Evidence, tuple[int, ...], tuple[int, ...]], Prediction]


def test_the_crossover_of_the_published_table_is_found_with_its_cause(published: Prediction) -> None:
    (crossover,) = published.crossovers
    assert (crossover.before.num_steps, crossover.after.num_steps) == (4, 3)
    assert 4 <= crossover.concurrency[0] <= crossover.concurrency[1] <= 16
    assert crossover.cause == "capacity"


def test_verification_cost_makes_the_best_draft_shorter_without_a_limit(of: Predict) -> None:
    theta = make_truth(0)
    theta[1:6] = -6.0, 3.0, -4.0, -8.0, -4.0  # arithmetic only
    theta[8:10] = 1.2, -3.0
    prediction = of(make_evidence(theta, make_cells((1, 2, 4, 6), (1, 8, 64))), (1, 2, 4, 6), (1, 8, 64))
    depths = [w.cell.setting.num_steps for w in prediction.winners]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1]
    assert {c.cause for c in prediction.crossovers} == {"verification cost"}
    assert prediction.capacity_costs == ()


def test_settings_within_a_tie_do_not_change_places(of: Predict) -> None:
    """Two settings whose lead of 0.4 % changes sign are one answer, not a crossover."""
    theta = make_truth(0)
    theta[1:6] = -6.0, 3.0, -9.0, -8.0, -2.0
    theta[8:10] = 0.4, -3.0
    prediction = of(make_evidence(theta, make_cells((1, 2), (1, 8, 64))), (1, 2), (1, 8, 64))
    assert prediction.crossovers == ()
