import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectune.perfmodel.effects import coordinates, lasting_covariance, passing_covariance
from spectune.perfmodel.evidence import Cell, Setting
from spectune.perfmodel.priors import DEFAULT_PRIOR

CELLS = st.builds(
    Cell,
    setting=st.integers(0, 8).map(Setting.chain),
    concurrency=st.integers(1, 256),
    workload=st.sampled_from(["", "chat", "code"]),
)


@given(st.lists(CELLS, min_size=1, max_size=12, unique=True))
def test_covariances_are_symmetric_and_positive(cells: list[Cell]) -> None:
    at = coordinates(cells)
    lasting = lasting_covariance(at, DEFAULT_PRIOR.scales)
    passing = passing_covariance(
        at, np.zeros(len(cells), dtype=np.int64), DEFAULT_PRIOR.scales, np.zeros(len(cells))
    )
    for matrix in (lasting, lasting + passing):
        assert np.allclose(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix).min() > 0


def test_near_cells_share_more_than_far_ones() -> None:
    cells = [Cell(setting=Setting.chain(k), concurrency=c) for k, c in ((2, 8), (3, 8), (3, 16), (8, 128))]
    lasting = lasting_covariance(coordinates(cells), DEFAULT_PRIOR.scales)
    assert lasting[0, 1] > lasting[0, 2] > lasting[0, 3] > 0
