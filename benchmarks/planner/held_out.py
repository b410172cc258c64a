"""Prediction errors on cells that were not measured, from published values without added noise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from load_tables import PublishedTable
from methods import GaussianProcess, Interpolation, Method, Ours, Seen, recommend
from replay import pairs_of, worst_loss
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
        choice_loss: worst loss over levels of the best speculating setting by prediction.
    """

    method: str
    task: str
    known: str
    errors: tuple[float, ...]
    off_errors: tuple[float, ...]
    covered: tuple[bool, ...]
    choice_loss: float


def held_out_settings(table: PublishedTable, prior: Prior) -> list[HeldOut]:
    """From pairs of launches to all other settings; tables with three or more settings and one text."""
    if len(table.settings) < 3 or len({c.workload for c in table.truth}) > 1:
        return []
    found = []
    for pair in pairs_of(table):
        known = f"num_steps {pair[0].num_steps}, {pair[1].num_steps}"
        found += _score(table, prior, "settings", known, pair, lambda cell, pair=pair: cell.setting in pair)
    return found


def held_out_levels(table: PublishedTable, prior: Prior) -> list[HeldOut]:
    """From the lowest, a middle and the highest level of every launch to the other levels."""
    if len(table.levels) < 5 or len({c.workload for c in table.truth}) > 1:
        return []
    levels = (table.levels[0], table.levels[len(table.levels) // 2], table.levels[-1])
    known = f"concurrency {levels[0]}, {levels[1]}, {levels[2]}"
    return _score(table, prior, "levels", known, table.settings, lambda cell: cell.concurrency in levels)


def _score(
    table: PublishedTable,
    prior: Prior,
    task: str,
    known: str,
    launched: Sequence[Setting],
    is_known: Callable[[Cell], bool],
) -> list[HeldOut]:
    rows = tuple(SpeedRow(cell=c, output_tps=y) for c, y in table.truth.items() if is_known(c))
    cells = [c for c in table.truth if not is_known(c)]
    seen = Seen(table=table, rows=rows, launched=tuple(launched))
    models: list[Method] = [GaussianProcess(), Interpolation(), Ours(prior=prior, seed=0)]
    return [_score_one(table, method, task, known, seen, cells) for method in models if cells]


def _score_one(
    table: PublishedTable, method: Method, task: str, known: str, seen: Seen, cells: Sequence[Cell]
) -> HeldOut:
    guess = method.predict(seen, cells)
    assert guess is not None
    low, middle, high = guess
    truth = np.array([table.truth[c] for c in cells])
    errors = np.abs(middle / truth - 1.0)
    is_off = np.array([c.setting.is_off for c in cells])
    has_interval = bool((high > low).all())
    return HeldOut(
        method=method.name,
        task=task,
        known=known,
        errors=tuple(errors[~is_off]),
        off_errors=tuple(errors[is_off]),
        covered=tuple((low <= truth) & (truth <= high)) if has_interval else (),
        choice_loss=worst_loss(table, recommend(method, seen)),
    )
