from collections.abc import Mapping
from dataclasses import replace

import pytest

from spectune.analysis.answers import answer
from spectune.analysis.crossover import BreakEven, Crossover
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.testing.study_values import (
    SpeedTable,
    history_of,
    make_completed,
    make_confirmed,
    make_history,
    make_level,
    make_study,
)

EAGLE_2 = SpecConfig.chain("eagle", 2)


def crossovers_of(speeds: SpeedTable) -> tuple[Crossover, ...]:
    return answer(history_of(speeds), lambda _config: ()).crossovers


def refined(off: Mapping[int, float], eagle: Mapping[int, float]) -> Crossover:
    """A change from eagle 2 to off between 4 and 16, with levels in between measured by both."""
    outcomes = (
        make_completed(1, 0, {4: 300, 16: 900}),
        make_completed(2, 2, {4: 400, 16: 600}),
        make_confirmed(3, 0, off, {}),
        make_confirmed(4, 2, eagle, {}),
    )
    (found,) = answer(make_history(make_study(concurrency=(4, 16)), outcomes), lambda _: ()).crossovers
    return found


def test_a_change_lies_between_the_levels_where_each_was_best() -> None:
    (found,) = crossovers_of({0: {1: 100, 4: 300, 16: 900}, 2: {1: 200, 4: 400, 16: 600}})
    assert (found.from_config, found.to_config, found.low, found.high) == (EAGLE_2, OFF, 4, 16)
    assert found.decided
    assert found.certain == (4, 16)


def test_a_change_that_noise_could_make_is_not_decided() -> None:
    (found,) = crossovers_of({0: {1: 100, 16: 930}, 2: {1: 200, 16: 900}})
    assert not found.decided
    assert found.certain is None


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


def test_levels_in_between_narrow_a_change() -> None:
    found = refined({6: 400, 8: 500, 11: 700}, {6: 500, 8: 505, 11: 600})
    assert (found.low, found.high) == (8, 11)
    assert not found.decided
    assert found.certain == (6, 11)


def test_a_level_in_between_where_off_leads_narrows_it_from_above() -> None:
    found = refined({8: 700}, {8: 500})
    assert (found.low, found.high, found.decided, found.certain) == (4, 8, True, (4, 8))


def slowed(level: LevelMeasurement, *, waiting: float) -> LevelMeasurement:
    """Every request waits that share of its time before its first token."""
    records = tuple(
        replace(
            record,
            chunk_times_s=(
                record.sent_at_s + waiting * (record.ended_at_s - record.sent_at_s),
                record.ended_at_s,
            ),
            chunk_tokens=(),
        )
        for record in level.records
    )
    return replace(level, records=records)


def test_waiting_requests_make_capacity_the_cause() -> None:
    off, eagle = make_completed(1, 0, {4: 300, 16: 900}), make_completed(2, 2, {4: 400, 16: 600})
    crowded = (eagle.levels[0], slowed(make_level(16, 600, num_steps=2), waiting=0.6))
    history = make_history(make_study(concurrency=(4, 16)), (off, replace(eagle, levels=crowded)))
    (found,) = answer(history, lambda _: ()).crossovers
    assert found.cause == "capacity"


def test_longer_steps_make_verification_the_cause() -> None:
    (found,) = crossovers_of({0: {4: 300, 16: 900}, 2: {4: 400, 16: 600}})
    assert found.cause == "verification cost"


def test_off_that_is_best_below_is_not_left_for_verification() -> None:
    (found,) = crossovers_of({0: {1: 100, 8: 300}, 2: {1: 80, 8: 400}})
    assert (found.from_config, found.to_config, found.cause) == (OFF, EAGLE_2, None)


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({0: {1: 100, 4: 300, 16: 900}, 2: {1: 200, 4: 400, 16: 600}}, (4, 16)),
        ({0: {1: 100, 4: 300, 16: 900}, 1: {1: 90, 4: 350, 16: 950}, 2: {1: 200, 4: 200, 16: 200}}, None),
        ({0: {1: 100, 4: 300}, 2: {1: 90, 4: 200}}, None),
        ({1: {1: 100}, 2: {1: 90}}, None),
        ({0: {1: 100, 4: 300}, 2: {1: 90, 4: 400}}, None),
    ],
    ids=["crosses", "always pays", "never pays", "without off", "pays only above"],
)
def test_break_even_is_where_the_best_speculation_falls_to_off(
    speeds: SpeedTable, expected: tuple[int, int] | None
) -> None:
    found = answer(history_of(speeds), lambda _: ()).break_even
    assert found.concurrency == expected
    assert bool(found.why) == (expected is None)


def test_break_even_is_not_the_change_between_two_depths() -> None:
    found = answer(
        history_of(
            {0: {1: 100, 4: 300, 16: 800}, 1: {1: 150, 4: 450, 16: 900}, 2: {1: 200, 4: 400, 16: 700}}
        ),
        lambda _: (),
    )
    assert len(found.crossovers) == 1
    assert found.break_even == BreakEven(concurrency=None, why="speculation is faster than off from 1 to 16")


@pytest.mark.parametrize(
    ("ratios", "why"),
    [
        ((1.3, 0.98, 1.05, 1.02), "speculation is no faster than off at 4 and is faster again from 16 to 32"),
        ((1.3, 0.98, 0.9, 1.02), "speculation is no faster than off at 4 and 16 and is faster again at 32"),
        ((0.9, 1.2, 0.98, 1.05), "speculation is no faster than off at 16 and is faster again at 32"),
        ((0.9, 0.95, 1.1, 1.2), "speculation is faster than off only from 16 on"),
    ],
)
def test_speculation_that_leads_at_the_highest_level_has_no_break_even(
    ratios: tuple[float, ...], why: str
) -> None:
    off = dict(zip((1, 4, 16, 32), (100.0, 300.0, 900.0, 1500.0), strict=True))
    eagle = {level: ratio * off[level] for level, ratio in zip(off, ratios, strict=True)}
    found = answer(history_of({0: off, 2: eagle}), lambda _: ()).break_even
    assert (found.concurrency, found.config, found.why) == (None, None, why)


def test_levels_at_which_speculation_and_off_are_a_tie_are_not_certain() -> None:
    found = answer(history_of({0: {1: 100, 4: 300}, 2: {1: 200, 4: 295}}), lambda _: ()).break_even
    assert (found.concurrency, found.uncertain) == ((1, 4), (4,))
