import pytest

from spectune.errors import ConfigError
from spectune.perfmodel.evidence import CapacityCurve, Cell, Setting, SpeedRow, split_overload


def row(concurrency: int, output_tps: float) -> SpeedRow:
    return SpeedRow(cell=Cell(setting=Setting.chain(2), concurrency=concurrency), output_tps=output_tps)


def test_cells_whose_speed_collapses_are_set_apart() -> None:
    rows = (row(64, 41), row(1, 100), row(16, 900), row(32, 850))
    sound, overloaded = split_overload(rows)
    assert [r.cell.concurrency for r in overloaded] == [64]
    assert len(sound) == 3


def test_a_capacity_that_grows_with_draft_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="never grow with draft tokens"):
        CapacityCurve(law="x", weight=1.0, running=(("", 2, 8), ("", 3, 9)))


def test_levers_are_told_apart() -> None:
    curve = CapacityCurve(law="x", weight=1.0, running=(("", 2, 8), ("bf16 states", 2, 15)))
    cell = Cell(setting=Setting.chain(1), concurrency=1, lever="bf16 states")
    assert curve.limit(cell) == 15


def test_a_capacity_that_was_not_worked_out_is_an_error() -> None:
    curve = CapacityCurve(law="x", weight=1.0, running=(("", 2, 8),))
    with pytest.raises(ConfigError, match="no value for 4 draft tokens"):
        curve.limit(Cell(setting=Setting.chain(3), concurrency=1))


@pytest.mark.parametrize("values", [(-1, 1, 1), (2, 0, 3), (2, 1, 0)])
def test_impossible_settings_are_refused(values: tuple[int, int, int]) -> None:
    steps, topk, tokens = values
    with pytest.raises(ConfigError, match="setting"):
        Setting(num_steps=steps, topk=topk, num_draft_tokens=tokens)
