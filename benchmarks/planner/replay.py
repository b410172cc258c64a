"""Replays published tables as servers: a launch measures every level and carries the tables' noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.planner.bounds import fewest_launches
from benchmarks.planner.load_tables import PublishedTable
from benchmarks.planner.methods import Grid, Method, Seen, recommend
from spectune.perfmodel.evidence import Cell, Setting, SpeedRow

LAUNCH_SD = 0.008  # published repeats of one setting: 1.8 % apart
CELL_SD = 0.010
GOOD = 0.01  # loss at every level that counts as found


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one method did on one table with one seed.

    Attributes:
        regret: worst loss over levels of its recommendation after each launch, from the first.
        measured_regret: the same when only measured settings may be recommended.
        stopped_after: launches it would have stopped after, off among them, which no answer goes without: it
            is the baseline; all of them if it never stops by itself.
        regret_at_stop: loss of the answer it stops with, measured settings only.
        threshold: loss that counts as found: 1 %, or what the noisy winners of the whole grid lose if more.
        fewest: launches that one who knows all truth and noise needs with measured settings.
    """

    regret: tuple[float, ...]
    measured_regret: tuple[float, ...]
    stopped_after: int
    regret_at_stop: float
    threshold: float
    fewest: int

    def launches_until_good(self, *, only_measured: bool) -> int:
        """First launch from which on the loss stays within the threshold at all levels."""
        losses = self.measured_regret if only_measured else self.regret
        bad = [i for i, loss in enumerate(losses) if loss > self.threshold]
        return (bad[-1] if bad else -1) + 2


def replay(table: PublishedTable, method: Method, seed: int) -> Run:
    """Launches all settings in the method's order; noted where it would have stopped."""
    speeds = noisy_speeds(table, seed)
    rows: list[SpeedRow] = []
    launched: list[Setting] = []
    regret, measured = [], []
    stopped_after, regret_at_stop = 0, 0.0
    while len(launched) < len(table.settings):
        seen = Seen(table=table, rows=tuple(rows), launched=tuple(launched))
        setting = method.propose(seen)
        if setting is None:
            if not stopped_after:
                stopped_after, regret_at_stop = _stopped(method, seen, speeds)
            setting = method.go_on(seen)
        launched.append(setting)
        rows += [SpeedRow(cell=c, output_tps=y) for c, y in speeds.items() if c.setting == setting]
        seen = Seen(table=table, rows=tuple(rows), launched=tuple(launched))
        regret.append(worst_loss(table, recommend(method, seen)))
        measured.append(worst_loss(table, recommend(method, seen, only_measured=True)))
    everything = Seen(table=table, rows=tuple(rows), launched=tuple(launched))
    threshold = max(GOOD, worst_loss(table, recommend(Grid(), everything)))
    return Run(
        regret=tuple(regret),
        measured_regret=tuple(measured),
        stopped_after=stopped_after or len(launched),
        regret_at_stop=regret_at_stop if stopped_after else measured[-1],
        threshold=threshold,
        fewest=fewest_launches(table, speeds, threshold),
    )


def noisy_speeds(table: PublishedTable, seed: int) -> dict[Cell, float]:
    """What measuring each cell reads; the same for every method."""
    rng = np.random.default_rng((seed, 7))
    noise = {s: rng.normal(0.0, LAUNCH_SD) for s in table.settings}
    return {c: float(y * np.exp(noise[c.setting] + rng.normal(0.0, CELL_SD))) for c, y in table.truth.items()}


def _stopped(method: Method, seen: Seen, speeds: Mapping[Cell, float]) -> tuple[int, float]:
    """Launches and loss of the answer when the search ends here; off is measured for it if it was not."""
    off = tuple(s for s in seen.waiting if s.is_off)
    rows = tuple(SpeedRow(cell=c, output_tps=y) for c, y in speeds.items() if c.setting in off)
    final = replace(seen, rows=(*seen.rows, *rows), launched=(*seen.launched, *off))
    return len(final.launched), worst_loss(seen.table, recommend(method, final, only_measured=True))


def worst_loss(table: PublishedTable, answer: dict[int, Setting]) -> float:
    """Largest share of speed lost at any level by a setting per level; levels without an answer lose all."""
    losses = []
    for level in table.levels:
        truth = {c.setting: y for c, y in table.truth.items() if c.concurrency == level}
        losses.append(1.0 - truth.get(answer.get(level, table.settings[0]), 0.0) / max(truth.values()))
    return float(max(losses))


def pairs_of(table: PublishedTable) -> list[tuple[Setting, Setting]]:
    """Two launches to predict the rest from: both ends of speculation, (1, 4), (1, 3), (2, 5) if there."""
    chain = {s.num_steps: s for s in table.settings if not s.is_off}
    wanted: Sequence[tuple[int, int]] = ((min(chain), max(chain)), (1, 4), (1, 3), (2, 5))
    return [(chain[a], chain[b]) for a, b in dict.fromkeys(wanted) if a in chain and b in chain and a != b]
