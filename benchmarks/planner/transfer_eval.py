"""Speeds of a new text from its acceptance alone, and with one timed cell, on tables of several texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.planner.load_tables import PublishedTable
from spectune.perfmodel.evidence import SpeedRow
from spectune.perfmodel.posterior import sample
from spectune.perfmodel.priors import Prior
from spectune.perfmodel.transfer import with_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One transfer from a table's first text to another.

    Attributes:
        errors: |predicted ÷ published − 1| with acceptance only.
        anchored_errors: the same with one timed cell of the new text, that cell left out.
        ignored_errors: the same when the old text's speeds are kept.
        loss: share of speed lost by the predicted best setting.
        old_loss: the same by keeping the old text's best.
        covered: whether cells lie in the 80 % interval, acceptance only.
    """

    errors: tuple[float, ...]
    anchored_errors: tuple[float, ...]
    ignored_errors: tuple[float, ...]
    loss: float
    old_loss: float
    covered: tuple[bool, ...]


def shifts(tables: Sequence[PublishedTable], prior: Prior) -> list[Shift]:
    """Every transfer of every table with several texts."""
    found = []
    for table in tables:
        texts = sorted({c.workload for c in table.truth})
        found += [_shift(table, prior, texts[0], new) for new in texts[1:]]
    return found


def _shift(table: PublishedTable, prior: Prior, old: str, new: str) -> Shift:
    everything = table.evidence()
    known = replace(
        everything,
        speeds=tuple(r for r in everything.speeds if r.cell.workload == old),
        acceptance=tuple(r for r in everything.acceptance if r.workload == old),
    )
    cells = tuple(c for c in table.truth if c.workload == new)
    truth = np.array([table.truth[c] for c in cells])
    lengths = [r for r in everything.acceptance if r.workload == new]
    evidence = with_text(known, new, lengths)
    draws = sample(evidence, cells, prior=prior, rng=np.random.default_rng(0))
    low, middle, high = draws.quantiles(0.8)
    anchor = next(i for i, c in enumerate(cells) if not c.setting.is_off)
    timed = with_text(known, new, lengths, [SpeedRow(cell=cells[anchor], output_tps=float(truth[anchor]))])
    anchored = sample(timed, cells, prior=prior, rng=np.random.default_rng(0)).quantiles(0.8)[1]
    before = np.array([table.truth.get(replace(c, workload=old), np.nan) for c in cells])
    return Shift(
        errors=tuple(np.abs(middle / truth - 1)),
        anchored_errors=tuple(np.delete(np.abs(anchored / truth - 1), anchor)),
        ignored_errors=tuple(np.abs(before / truth - 1)[~np.isnan(before)]),
        loss=float(1 - truth[int(middle.argmax())] / truth.max()),
        old_loss=float(1 - truth[int(np.nanargmax(before))] / truth.max()),
        covered=tuple((low <= truth) & (truth <= high)),
    )


def transfer_text(found: Sequence[Shift]) -> list[str]:
    """Markdown lines."""
    rows = (
        ("old text's speeds and setting kept", "ignored_errors", "old_loss"),
        ("acceptance of the new text only", "errors", "loss"),
        ("and one timed cell of it", "anchored_errors", ""),
    )
    lines = ["| known of the new text | median error % | mean error % | best-K loss % |", "|---|---|---|---|"]
    for words, field, loss in rows:
        errors = 100 * np.array([e for s in found for e in getattr(s, field)])
        lost = f"{100 * np.mean([getattr(s, loss) for s in found]):.1f}" if loss else "–"
        lines.append(f"| {words} | {np.median(errors):.1f} | {errors.mean():.1f} | {lost} |")
    covered = [c for s in found for c in s.covered]
    lines += ["", f"80 % intervals (acceptance only) cover {np.mean(covered):.2f} of {len(covered)} cells."]
    return lines
