import pytest

from spectune.domain.trial import Void
from spectune.perfmodel.evidence import Setting
from spectune.perfmodel.history_evidence import evidence_of, lessons_of
from spectune.testing.study_values import make_completed, make_failed, make_trial

SPEEDS = {1: 100.0, 8: 500.0}
WANTED = [Setting.chain(k) for k in range(5)]


def test_completed_trials_give_speeds_acceptance_and_capacity() -> None:
    outcomes = [make_completed(1, 4, SPEEDS), make_completed(2, 0, {1: 60.0, 8: 400.0})]
    evidence = evidence_of(lessons_of(outcomes), WANTED)
    places = [(r.cell.setting.num_steps, r.cell.concurrency) for r in sorted(evidence.speeds)]
    assert places == [(0, 1), (0, 8), (4, 1), (4, 8)]
    assert [r.output_tps for r in sorted(evidence.speeds)][2:] == pytest.approx([100, 500], rel=0.05)
    lengths = {r.setting.num_steps: r.acceptance_length for r in evidence.acceptance}
    assert set(lengths) >= {4}
    assert lengths[4] == pytest.approx(3.0, rel=0.05)  # half of four draft tokens are accepted
    assert {n for curve in evidence.capacity for _, tokens, n in curve.running if tokens == 5} == {44}


def test_what_failed_or_ran_something_else_teaches_nothing() -> None:
    good = make_completed(1, 4, SPEEDS)
    void = Void(
        trial=make_trial(2, 2), reason="x", effective=good.effective, launch_s=1.0, levels=good.levels
    )
    assert evidence_of(lessons_of([make_failed(3, 3), void]), WANTED).speeds == ()


def test_repeated_launches_are_told_apart() -> None:
    evidence = evidence_of(lessons_of([make_completed(1, 4, SPEEDS), make_completed(2, 4, SPEEDS)]), WANTED)
    assert sorted({r.launch for r in evidence.speeds}) == [0, 1]
