import pytest

from spectune.analysis.answers import answer
from spectune.analysis.winners import Winner
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.testing.study_values import SpeedTable, history_of


def winners_of(speeds: SpeedTable) -> tuple[Winner, ...]:
    return answer(history_of(speeds), lambda _config: ()).winners


def test_the_fastest_setting_of_each_level_wins() -> None:
    found = winners_of({0: {1: 100, 32: 1000}, 1: {1: 150, 32: 900}, 2: {1: 180, 32: 700}})
    assert [(winner.concurrency, winner.config) for winner in found] == [
        (1, SpecConfig.chain("eagle", 2)),
        (32, OFF),
    ]
    assert [winner.speedup_over_off for winner in found] == [pytest.approx(1.8, rel=0.01), 1.0]
    assert all(winner.decided for winner in found)


def test_within_one_percent_the_fewer_steps_win_and_nothing_is_decided() -> None:
    (winner,) = winners_of({0: {1: 100}, 1: {1: 199}, 2: {1: 200}})
    assert winner.config == SpecConfig.chain("eagle", 1)
    assert winner.is_tie_rule
    assert not winner.decided


def test_a_gap_inside_the_noise_is_a_winner_that_is_not_decided() -> None:
    (winner,) = winners_of({0: {1: 100}, 1: {1: 195}, 2: {1: 200}})
    assert winner.config == SpecConfig.chain("eagle", 2)
    assert not winner.is_tie_rule
    assert not winner.decided


def test_a_setting_without_rivals_is_not_decided() -> None:
    (winner,) = winners_of({0: {1: 100}})
    assert not winner.decided
    assert winner.rivals == ()


def test_without_off_there_is_no_speedup() -> None:
    (winner,) = winners_of({1: {1: 100}, 2: {1: 150}})
    assert winner.speedup_over_off is None


def test_rivals_come_fastest_first() -> None:
    (winner,) = winners_of({0: {1: 100}, 1: {1: 150}, 2: {1: 130}})
    assert [rival.config.num_steps for rival in winner.rivals] == [2, 0]
