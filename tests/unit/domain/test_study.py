import pytest

from spectune.domain.study import SearchSpace
from spectune.errors import ConfigError
from spectune.testing.study_values import make_study


@pytest.mark.parametrize("num_steps", [(), (1, 0), (0, 0), (-1, 0)])
def test_a_space_ascends_from_zero_or_more(num_steps: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="num_steps"):
        SearchSpace(method="eagle", num_steps=num_steps)


@pytest.mark.parametrize("concurrency", [(), (4, 1), (1, 1), (0, 4)])
def test_levels_ascend_from_one(concurrency: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="concurrency"):
        make_study(concurrency=concurrency)
