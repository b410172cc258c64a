import numpy as np

from spectune.perfmodel.evidence import Evidence, Setting
from spectune.perfmodel.prediction import predict
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.planning.next_measurement import next_measurement
from spectune.testing.known_surface import make_cells, make_evidence, make_truth


def evidence_with(lengths: tuple[float, float], steps: tuple[int, ...]) -> Evidence:
    theta = make_truth(0)
    theta[8:10] = lengths
    return make_evidence(theta, make_cells(steps, (1, 8)), has_acceptance=False)


def test_where_more_steps_may_be_better_more_steps_are_measured() -> None:
    evidence = evidence_with((3.0, -6.0), (1, 2))
    settings = [Setting.chain(k) for k in range(1, 7)]
    prediction = predict(evidence, settings, (1, 8), prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))
    step = next_measurement(prediction, evidence)
    assert step is not None
    assert step.setting.num_steps > 2
    assert step.value > 0.01


def test_a_table_that_is_complete_and_clear_needs_nothing() -> None:
    evidence = evidence_with((3.0, -6.0), (1, 4))
    settings = [Setting.chain(k) for k in (1, 4)]
    prediction = predict(evidence, settings, (1, 8), prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))
    assert next_measurement(prediction, evidence) is None
