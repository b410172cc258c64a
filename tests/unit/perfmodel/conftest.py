"""The published 122B table and its prediction, for every test that looks at them."""

from collections.abc import Callable

import numpy as np
import pytest

from spectune.perfmodel.evidence import Evidence, Setting
from spectune.perfmodel.prediction import Prediction, predict
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.table import evidence_of, parse_table

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


def predicted(evidence: Evidence, steps: tuple[int, ...], levels: tuple[int, ...]) -> Prediction:
    settings = [Setting.chain(k) for k in steps]
    return predict(evidence, settings, levels, prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))


@pytest.fixture(scope="session")
def of() -> Callable[[Evidence, tuple[int, ...], tuple[int, ...]], Prediction]:
    """Predicts chains of these num_steps at these levels with the default prior and a fixed seed."""
    return predicted


@pytest.fixture(scope="session")
def published() -> Prediction:
    table = parse_table(PUBLISHED, "published.csv")
    return predicted(evidence_of(table, range(2, 6)), (1, 2, 3, 4), (1, 4, 16, 64))
