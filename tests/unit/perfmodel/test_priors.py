import math

import pytest

from spectune.perfmodel.priors import DEFAULT_PRIOR


def test_a_known_expert_share_narrows_where_saturation_lies() -> None:
    mean, sd = DEFAULT_PRIOR.saturation(8 / 128)
    assert mean == pytest.approx(math.log(16) - 0.4)
    assert sd < DEFAULT_PRIOR.saturation(None)[1]


def test_kinds_of_deployment_add_up() -> None:
    kinds = DEFAULT_PRIOR.kinds()
    assert sum(share for _, share in kinds) == pytest.approx(1.0)
    assert len({kind for kind, _ in kinds}) == 4
