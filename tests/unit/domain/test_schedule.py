import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.schedule import Schedule
from spectune.errors import ConfigError


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 8)), min_size=1, max_size=5))
def test_a_schedule_is_read_back_from_its_label(parts: list[tuple[int, int]]) -> None:
    bounds = [1]
    for width, _ in parts:
        bounds.append(bounds[-1] + width)
    last = len(parts) - 1
    schedule = Schedule.of(
        *((bounds[i], None if i == last else bounds[i + 1] - 1, steps) for i, (_, steps) in enumerate(parts))
    )
    assert Schedule.parse(schedule.label) == schedule
    assert schedule.max_steps == max(steps for _, steps in parts)
    assert [schedule.steps_for(bounds[i]) for i in range(len(parts))] == [steps for _, steps in parts]
    assert schedule.steps_for(10_000) == parts[-1][1]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("2-:1", "ranges join from 1 on"),
        ("1-4:2,6-:0", "ranges join from 1 on"),
        ("1-:2,5-:0", "ranges join from 1 on"),
        ("1-4:2", "the last range is open"),
        ("4-1:2,2-:0", "ranges join from 1 on"),
        ("1-4", "LOW-HIGH:STEPS"),
        ("", "LOW-HIGH:STEPS"),
        ("1-x:2", "LOW-HIGH:STEPS"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Schedule.parse(text)
