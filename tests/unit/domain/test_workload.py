import pytest

from spectune.domain.workload import LoadPlan
from spectune.errors import ConfigError
from spectune.testing.study_values import make_plan


def test_a_level_needs_a_request_for_each_slot() -> None:
    plan = make_plan(4)
    with pytest.raises(ConfigError, match="requests >= concurrency"):
        LoadPlan(concurrency=4, warmup=(), requests=plan.requests[:3])


def test_a_level_has_a_slot() -> None:
    with pytest.raises(ConfigError, match="concurrency >= 1"):
        LoadPlan(concurrency=0, warmup=(), requests=())
