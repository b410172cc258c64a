from spectune.analysis.answers import answer
from spectune.analysis.crossover import Crossover
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.testing.study_values import SpeedTable, history_of

EAGLE_2 = SpecConfig.chain("eagle", 2)


def crossovers_of(speeds: SpeedTable) -> tuple[Crossover, ...]:
    return answer(history_of(speeds), lambda _config: ()).crossovers


def test_a_change_lies_between_the_levels_where_each_was_best() -> None:
    (found,) = crossovers_of({0: {1: 100, 4: 300, 16: 900}, 2: {1: 200, 4: 400, 16: 600}})
    assert (found.from_config, found.to_config, found.low, found.high) == (EAGLE_2, OFF, 4, 16)
    assert found.decided


def test_a_change_that_noise_could_make_is_not_decided() -> None:
    (found,) = crossovers_of({0: {1: 100, 16: 930}, 2: {1: 200, 16: 900}})
    assert not found.decided


def test_one_winner_everywhere_has_no_crossover() -> None:
    assert crossovers_of({0: {1: 100, 4: 300}, 2: {1: 200, 4: 400}}) == ()


def test_the_best_setting_may_change_twice() -> None:
    found = crossovers_of(
        {0: {1: 100, 4: 300, 16: 900}, 1: {1: 150, 4: 450, 16: 700}, 2: {1: 200, 4: 350, 16: 600}}
    )
    assert [(c.from_config.num_steps, c.to_config.num_steps, c.low, c.high) for c in found] == [
        (2, 1, 1, 4),
        (1, 0, 4, 16),
    ]
