"""The most valuable next measurement for a table, when no server is running."""

from collections.abc import Sequence

from spectune.perfmodel.evidence import Evidence, Setting
from spectune.perfmodel.prediction import NextMeasurement, Prediction
from spectune.planning.acquisition import Candidate, worth_of
from spectune.planning.candidates import spread
from spectune.planning.goals import Choice, Goal, per_level

RESTART_S, BENCH_S = 300.0, 60.0  # a large model's restart; a level's measurement
WORTHLESS = 1e-4  # share of speed below which nothing is worth measuring


def next_measurement(prediction: Prediction, evidence: Evidence) -> NextMeasurement | None:
    """Setting and levels with the highest expected gain per second; None when nothing would gain."""
    cells = prediction.posterior.cells
    settings = sorted({cell.setting for cell in cells})
    levels = sorted({cell.concurrency for cell in cells})
    goals = _goals(prediction, levels)
    choices = tuple(Choice(setting=s) for s in settings)
    candidates = [
        Candidate(choice=Choice(setting=s), concurrency=at, restart_s=RESTART_S, bench_s=BENCH_S * len(at))
        for s in settings
        for at in _subsets(_open_levels(evidence, s, levels))
    ]
    known = frozenset(row.cell for row in evidence.speeds)
    worths = [worth_of(prediction.posterior, goals, choices, c, known) for c in candidates]
    worths.sort(key=lambda w: (-w.rate, w.candidate.choice.setting, w.candidate.concurrency))
    if not worths or worths[0].value < WORTHLESS:
        return None
    best = worths[0]
    return NextMeasurement(
        setting=best.candidate.choice.setting, concurrency=best.candidate.concurrency, value=best.value
    )


def _goals(prediction: Prediction, levels: Sequence[int]) -> tuple[Goal, ...]:
    texts = sorted({cell.workload for cell in prediction.posterior.cells})
    return tuple(goal for text in texts for goal in per_level(levels, text))


def _open_levels(evidence: Evidence, setting: Setting, levels: Sequence[int]) -> tuple[int, ...]:
    """Levels at which the setting was not measured."""
    known = {row.cell.concurrency for row in evidence.speeds if row.cell.setting == setting}
    return tuple(level for level in levels if level not in known)


def _subsets(levels: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Levels that may be measured together: each alone, low with high, a spread, all."""
    if not levels:
        return ()
    ends = tuple(sorted({levels[0], levels[-1]}))
    return tuple(dict.fromkeys(((levels[0],), (levels[-1],), ends, spread(levels), levels)))
