"""Prediction errors on cells that were not measured, from published values without added noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.planner.load_tables import PublishedTable
from benchmarks.planner.methods import GaussianProcess, Interpolation, Method, Ours, Seen, recommend
from benchmarks.planner.replay import pairs_of, worst_loss
from spectune.perfmodel.evidence import Cell, Setting, SpeedRow
from spectune.perfmodel.priors import Prior


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One prediction of a table's rest.

    Attributes:
        method: name.
        task: "settings" (from two launches) or "levels" (from three levels of every launch).
        known: what was measured, in words.
        errors: |predicted ÷ published − 1| by cell.
        off_errors: the same for off, kept apart: another arm.
        covered: whether each cell (off included) lies in the 80 % interval; empty without intervals.
        choice_loss: mean over levels of what the recommended speculating setting loses against the best one.
        worst_loss: the same at the worst level, off among the candidates.
        expected_loss: what the method's own draws make of `choice_loss`: once of what lasts, once with the
            noise of one measurement, as published values have; zeros without draws.
    """

    method: str
    task: str
    known: str
    errors: tuple[float, ...]
    off_errors: tuple[float, ...]
    covered: tuple[bool, ...]
    choice_loss: float
    worst_loss: float
    expected_loss: tuple[float, float]


def held_out_settings(table: PublishedTable, prior: Prior) -> list[HeldOut]:
    """From pairs of launches to all other settings; tables with three or more settings and one text."""
    if len(table.settings) < 3 or len({c.workload for c in table.truth}) > 1:
        return []
    found = []
    for first, second in pairs_of(table):
        known = f"num_steps {first.num_steps}, {second.num_steps}"
        cells = frozenset(c for c in table.truth if c.setting in (first, second))
        found += _score(table, prior, ("settings", known), (first, second), cells)
    return found


def held_out_levels(table: PublishedTable, prior: Prior) -> list[HeldOut]:
    """From the lowest, a middle and the highest level of every launch to the other levels."""
    if len(table.levels) < 5 or len({c.workload for c in table.truth}) > 1:
        return []
    levels = (table.levels[0], table.levels[len(table.levels) // 2], table.levels[-1])
    known = f"concurrency {levels[0]}, {levels[1]}, {levels[2]}"
    cells = frozenset(c for c in table.truth if c.concurrency in levels)
    return _score(table, prior, ("levels", known), table.settings, cells)


def _score(
    table: PublishedTable,
    prior: Prior,
    task: tuple[str, str],
    launched: Sequence[Setting],
    known: frozenset[Cell],
) -> list[HeldOut]:
    rows = tuple(SpeedRow(cell=c, output_tps=y) for c, y in table.truth.items() if c in known)
    cells = [c for c in table.truth if c not in known]
    seen = Seen(table=table, rows=rows, launched=tuple(launched))
    models: tuple[Method, ...] = (GaussianProcess(), Interpolation(), Ours(prior=prior, seed=0))
    return [_score_one(table, method, task, seen, cells) for method in models if cells]


def _score_one(
    table: PublishedTable, method: Method, task: tuple[str, str], seen: Seen, cells: Sequence[Cell]
) -> HeldOut:
    guess = method.predict(seen, cells)
    assert guess is not None
    low, middle, high = guess
    truth = np.array([table.truth[c] for c in cells])
    errors = np.abs(middle / truth - 1.0)
    is_off = np.array([c.setting.is_off for c in cells])
    choice_loss, expected_loss = _choice_loss(table, method, seen)
    has_interval = bool((high > low).all())
    return HeldOut(
        method=method.name,
        task=task[0],
        known=task[1],
        errors=tuple(errors[~is_off]),
        off_errors=tuple(errors[is_off]),
        covered=tuple((low <= truth) & (truth <= high)) if has_interval else (),
        choice_loss=choice_loss,
        worst_loss=worst_loss(table, recommend(method, seen)),
        expected_loss=expected_loss,
    )


def _choice_loss(table: PublishedTable, method: Method, seen: Seen) -> tuple[float, tuple[float, float]]:
    """Actual and expected loss. Off left out on both sides: it is another arm, with a launch of its own."""
    settings = tuple(s for s in table.settings if not s.is_off)
    truth = {c: y for c, y in table.truth.items() if not c.setting.is_off}
    depths = replace(seen, table=replace(table, settings=settings, truth=truth))
    answer = recommend(method, depths)
    losses = []
    for level in table.levels:
        speeds = {c.setting: y for c, y in truth.items() if c.concurrency == level}
        if level in answer:
            losses.append(1.0 - speeds[answer[level]] / max(speeds.values()))
    expected = _expected_loss(method, depths, answer) if isinstance(method, Ours) else (0.0, 0.0)
    return float(np.mean(losses)), expected


def _expected_loss(method: Ours, seen: Seen, answer: Mapping[int, Setting]) -> tuple[float, float]:
    """Mean over levels of 1 − E[speed of the answer ÷ speed of the best]: what lasts, and as read once."""
    cells = tuple(seen.table.truth)
    draws = method.posterior(seen, cells)
    known = {row.cell: np.log(row.output_tps) for row in seen.rows}
    read = draws.measured.copy()
    for i, cell in enumerate(cells):
        read[:, i] = known.get(cell, read[:, i])
    losses = []
    for level, setting in answer.items():
        places = [i for i, cell in enumerate(cells) if cell.concurrency == level]
        chosen = next(i for i in places if cells[i].setting == setting)
        losses.append(
            [
                float(-np.expm1(logs[:, chosen] - logs[:, places].max(axis=1)).mean())
                for logs in (draws.lasting, read)
            ]
        )
    lasting, as_read = np.mean(losses, axis=0)
    return float(lasting), float(as_read)
