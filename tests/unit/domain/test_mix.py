import pytest

from spectune.domain.mix import level_weights, neighbours


def test_a_level_between_two_is_read_from_both_in_log_concurrency() -> None:
    assert neighbours((1, 4), 2) == ((1, 0.5), (4, 0.5))
    assert dict(neighbours((4, 16), 5)) == pytest.approx({4: 0.839, 16: 0.161}, abs=0.001)


@pytest.mark.parametrize(("concurrency", "level"), [(1, 2), (2, 2), (8, 8), (64, 8)])
def test_a_measured_level_or_one_beyond_them_is_read_from_one(concurrency: int, level: int) -> None:
    assert neighbours((2, 8), concurrency) == ((level, 1.0),)


def test_shares_add_up_to_one_and_levels_without_weight_are_left_out() -> None:
    assert level_weights([(4, 2.0), (1, 6.0)], (1, 4, 16)) == {1: 0.75, 4: 0.25}
    assert level_weights([(2, 1.0), (1, 1.0)], (1, 4)) == {1: 0.75, 4: 0.25}


def test_without_a_mix_every_level_counts_alike() -> None:
    assert level_weights([], (1, 8)) == {1: 0.5, 8: 0.5}
