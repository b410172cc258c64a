from spectune.perfmodel.capacity_beliefs import believed_curves
from spectune.perfmodel.checks import (
    capacity_warnings,
    ceiling_warnings,
    overload_warnings,
    reach_warnings,
)
from spectune.perfmodel.evidence import AcceptanceRow, Cell, Evidence, Setting, SpeedRow


def row(steps: int, concurrency: int, output_tps: float) -> SpeedRow:
    return SpeedRow(cell=Cell(setting=Setting.chain(steps), concurrency=concurrency), output_tps=output_tps)


def test_a_ratio_no_acceptance_allows_is_reported() -> None:
    evidence = Evidence(speeds=(row(1, 1, 122.9), row(2, 1, 186), row(4, 1, 277)))
    (warning,) = ceiling_warnings(evidence)
    assert "above its ceiling: num_steps 2 is 1.513 times num_steps 1" in warning


def test_lengths_near_their_bound_are_reported() -> None:
    length = AcceptanceRow(setting=Setting.chain(3), workload="", acceptance_length=3.9)
    (warning,) = ceiling_warnings(Evidence(speeds=(row(1, 1, 100), row(3, 1, 150)), acceptance=(length,)))
    assert "3.90 of at most 4" in warning


def test_ordinary_acceptance_is_not_reported() -> None:
    length = AcceptanceRow(setting=Setting.chain(3), workload="", acceptance_length=2.9)
    assert ceiling_warnings(Evidence(speeds=(row(1, 1, 100), row(3, 1, 150)), acceptance=(length,))) == ()


def test_overload_names_the_cell() -> None:
    (warning,) = overload_warnings([row(1, 128, 63)])
    assert "63 tok/s at num_steps 1, concurrency 128" in warning


def test_predictions_beyond_what_was_measured_are_reported() -> None:
    evidence = Evidence(speeds=(row(1, 4, 100), row(3, 16, 150)))
    found = reach_warnings(evidence, [Setting.chain(k) for k in (0, 3, 6)], [1, 4, 64])
    assert [w.split(";")[0] for w in found] == [
        "extrapolation: concurrency 1, 64 lies outside the measured 4 to 16",
        "extrapolation: num_steps 6 lies above the measured 3",
        "off was not measured: it runs other kernels than verification does, so its prediction is a guess",
    ]


def test_nothing_is_reported_inside_the_measured_range() -> None:
    evidence = Evidence(speeds=(row(0, 1, 100), row(3, 16, 150)))
    assert reach_warnings(evidence, [Setting.chain(2)], [4]) == ()


def test_a_guessed_capacity_is_reported_where_it_matters() -> None:
    evidence = Evidence(
        speeds=(row(1, 1, 100), row(2, 1, 150)), capacity=believed_curves({2: 26, 3: 21}, [2, 3, 5])
    )
    cells = [Cell(setting=Setting.chain(4), concurrency=c) for c in (1, 64)]
    (warning,) = capacity_warnings(evidence, cells)
    assert "11 to 15 at 5 draft tokens (not launched)" in warning
    assert capacity_warnings(evidence, cells[:1]) == ()
