"""A whole study of known truth: search, finalists again, off at equal limits, a schedule, a ramp."""

from collections.abc import Mapping
from dataclasses import replace

from spectune.domain.schedule import Schedule
from spectune.domain.study import ProofRule, StudyHistory
from spectune.domain.trial import Completed
from spectune.testing.study_values import (
    make_completed,
    make_confirmed,
    make_failed,
    make_history,
    make_level,
    make_study,
)

LEVELS = (1, 4, 16, 32)
SCHEDULE = Schedule.of((1, 8, 3), (9, 22, 1), (23, None, 0))
OFF = {1: 100.0, 4: 330.0, 16: 900.0, 32: 1500.0}
EAGLE_1 = {1: 150.0, 4: 480.0, 16: 1000.0, 32: 1400.0}
EAGLE_3 = {1: 200.0, 4: 520.0, 16: 850.0, 32: 1100.0}
_FRESH = 0.95
"""Fresh prompts run so much slower than the search's, whatever the setting."""
_LIMIT = 17
"""Requests that eagle 3 runs at once."""


def proved_study(*, schedule: Mapping[int, float] | None = None, ramp: float = 690.0) -> StudyHistory:
    """A study that did everything `tune --thorough` does; eagle 1 is the best fixed setting.

    Args:
        schedule: tokens/s of the schedule on the search's prompts; None for nearly the best of each level.
        ramp: its tokens/s on the load up and down, where off has 650 and eagle 1 has 660.
    """
    speeds = schedule or {1: 197.0, 4: 516.0, 16: 985.0, 32: 1480.0}
    outcomes = (
        make_completed(1, 0, OFF),
        _limited(make_completed(2, 3, EAGLE_3)),
        make_completed(3, 1, EAGLE_1),
        make_failed(4, 2),
        _with_ramp(make_confirmed(5, 1, _fresh({**EAGLE_1, 8: 700, 23: 1180}), {4: 478}), 660),
        _with_ramp(make_confirmed(6, 0, _fresh({**OFF, 23: 1220}), {4: 322}), 650),
        make_confirmed(7, 3, _fresh({**EAGLE_3, 8: 650}), {4: 522}),
        _levered(make_completed(8, 0, {1: 100, 4: 330, 16: 890, 32: 920})),
        _scheduled(_with_ramp(make_confirmed(9, 3, _fresh(speeds), {}), ramp)),
    )
    proof = ProofRule(rounds=1, refine=3, has_schedule=True, has_equal_limits=True, is_lossless=True)
    return make_history(replace(make_study(concurrency=LEVELS), proof=proof), outcomes)


def _fresh(speeds: Mapping[int, float]) -> dict[int, float]:
    return {level: _FRESH * tps for level, tps in speeds.items()}


def _limited(completed: Completed) -> Completed:
    return replace(completed, effective=replace(completed.effective, max_running_requests=_LIMIT))


def _levered(completed: Completed) -> Completed:
    trial = replace(completed.trial, lever=f"--max-running-requests {_LIMIT}")
    return replace(_limited(completed), trial=trial)


def _with_ramp(completed: Completed, tps: float) -> Completed:
    ramp = make_level(LEVELS[-1], tps, num_requests=120, part="ramp")
    return replace(completed, levels=(*completed.levels, ramp))


def _scheduled(completed: Completed) -> Completed:
    return replace(completed, trial=replace(completed.trial, role="schedule", schedule=SCHEDULE))
