"""Results as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.planner.held_out import HeldOut
from benchmarks.planner.load_tables import PublishedTable
from benchmarks.planner.replay import Run
from benchmarks.planner.timing import timing_text, timings
from benchmarks.planner.transfer_eval import Shift, transfer_text

Runs = Mapping[str, Mapping[str, Sequence[Run]]]
MODELS = ("generic gp", "interpolation", "spectune")
_INTRODUCTION = (
    "Published tables replayed as servers. One launch measures every level, with the tables' noise; every "
    "score of a table uses a prior that never saw its source. Written by `run.py`; do not edit."
)
_LAUNCHES = (
    "Mean over seeds. First number: a method with a model may recommend a setting it did not measure "
    "where it predicts more than 1 % gain; second: only measured settings. Measured cells count as "
    "measured. Where the whole grid's noisy winners lose more than 1 %, that loss counts as found. "
    "Fewest: what one who knows the truth and all noise needs, who recommends measured settings only "
    "(`bounds.py`). Off is a setting like any other here; where only the baseline is missing when a "
    'method would stop, its launch counts as the last one of "stops after".'
)
_HELD_OUT = (
    "Mean |error| in %, off apart. Loss in %: mean over levels of what the recommended speculating setting "
    "loses against the best one / loss at the worst level with off among the candidates."
)
_HEAD = (
    "method", "launches", "launches, measured only", "regret after 1, 2, 3 launches %",
    "stops after (regret there %)", "held-out settings %",
    "best-K loss, mean / worst level %", "held-out levels %", "80 % interval covers",
)  # fmt: skip


def document(
    tables: Sequence[PublishedTable],
    runs: Runs,
    held: Mapping[str, Sequence[HeldOut]],
    moved: Sequence[Shift],
) -> str:
    """The whole page."""
    parts = [
        "# Planner benchmark",
        "",
        _INTRODUCTION,
        "",
        "## Summary",
        "",
        *_summary(runs, held),
        "",
        *_verdicts(runs, held),
        "",
        "![regret by launches](results.svg)",
        "",
        timing_text(timings(tables)),
        "",
        "## Launches until the recommendation stays within 1 % of the best at every level",
        "",
        _LAUNCHES,
        "",
        *_launches(tables, runs),
        "",
        "## Error on settings that were not launched, from two launches",
        "",
        _HELD_OUT,
        "",
        *_held(tables, held, "settings"),
        "",
        "## Error on levels that were not measured, from three levels of every launch",
        "",
        *_held(tables, held, "levels"),
        "",
        "## New text on a known server (tables with several texts)",
        "",
        *(transfer_text(moved) if moved else ("none",)),
        "",
    ]
    return "\n".join(parts)


def _summary(runs: Runs, held: Mapping[str, Sequence[HeldOut]]) -> list[str]:
    lines = ["| " + " | ".join(_HEAD) + " |", "|---" * len(_HEAD) + "|"]
    for name, by_table in runs.items():
        some = [_until(rs) for rs in by_table.values()]
        measured = [_until(rs, only_measured=True) for rs in by_table.values()]
        regret = [
            100 * np.mean([np.mean([r.regret[i] for r in rs]) for rs in by_table.values()]) for i in range(3)
        ]
        stops = np.mean([np.mean([r.stopped_after for r in rs]) for rs in by_table.values()])
        at_stop = 100 * np.mean([np.mean([r.regret_at_stop for r in rs]) for rs in by_table.values()])
        lines.append(
            f"| {name} | {np.mean(some):.2f} | {np.mean(measured):.2f} | "
            f"{', '.join(f'{v:.1f}' for v in regret)} | {stops:.1f} ({at_stop:.1f}) | "
            f"{_held_summary(name, held)} |"
        )
    return lines


def _verdicts(runs: Runs, held: Mapping[str, Sequence[HeldOut]]) -> list[str]:
    """On how many tables no other method needs fewer launches, and how sure the model was of its choices."""
    lines = []
    for only_measured, what in ((False, "launches"), (True, "launches, measured only")):
        leads = [_lead(runs, label, only_measured=only_measured) for label in runs["spectune"]]
        behind = [text for excess, text in leads if excess > 0]
        lines.append(
            f"{what.capitalize()}: no method needs fewer than spectune on {len(leads) - len(behind)} of "
            f"{len(leads)} tables" + (f"; some method does on {', '.join(behind)}." if behind else ".")
        )
    settings = [
        h for found in held.values() for h in found if h.method == "spectune" and h.task == "settings"
    ]
    if settings:
        actual = 100 * np.mean([h.choice_loss for h in settings])
        lasting, as_read = 100 * np.mean([h.expected_loss for h in settings], axis=0)
        lines.append(
            f"Loss of the best-K choices from two launches, mean of {len(settings)} pairs: spectune's draws "
            f"expect {lasting:.2f} % of what lasts and {as_read:.2f} % with the noise of one measurement, "
            f"which published values have; these say {actual:.2f} %."
        )
    return [part for line in lines for part in (line, "")][:-1]


def _lead(runs: Runs, label: str, *, only_measured: bool) -> tuple[float, str]:
    """Launches by which the best other method on a table beats spectune, and the same in words.

    The standard error is that of the mean difference over seeds; that the best of six is picked is not in it.
    """
    counts = {
        name: np.array([r.launches_until_good(only_measured=only_measured) for r in by_table[label]])
        for name, by_table in runs.items()
    }
    ours = counts.pop("spectune")
    best = min(counts, key=lambda name: float(counts[name].mean()))
    gaps = ours - counts[best]
    error = float(gaps.std(ddof=1)) / np.sqrt(len(gaps)) if len(gaps) > 1 else float("nan")
    words = f"{label} ({ours.mean():.1f} against {counts[best].mean():.1f} of {best}, ± {error:.1f})"
    return float(gaps.mean()), words


def _until(runs: Sequence[Run], *, only_measured: bool = False) -> float:
    return float(np.mean([r.launches_until_good(only_measured=only_measured) for r in runs]))


def _held_summary(name: str, held: Mapping[str, Sequence[HeldOut]]) -> str:
    if name not in MODELS:
        return "– | – | – | –"
    mine = {label: [h for h in found if h.method == name] for label, found in held.items()}
    errors, losses, worst, levels = [], [], [], []
    covered: list[bool] = []
    for found in mine.values():
        settings = [h for h in found if h.task == "settings"]
        if settings:
            errors.append(np.mean([np.mean(h.errors) for h in settings if h.errors]))
            losses.append(np.mean([h.choice_loss for h in settings]))
            worst.append(np.mean([h.worst_loss for h in settings]))
        levels += [np.mean([*h.errors, *h.off_errors]) for h in found if h.task == "levels"]
        covered += [c for h in found for c in h.covered]
    cover = f"{np.mean(covered):.2f} of {len(covered)}" if covered else "–"
    return f"{_percent(errors)} | {_percent(losses)} / {_percent(worst)} | {_percent(levels)} | {cover}"


def _percent(shares: Sequence[float | np.floating[Any]]) -> str:
    return f"{100 * float(np.mean(np.asarray(shares))):.1f}" if shares else "–"


def _launches(tables: Sequence[PublishedTable], runs: Runs) -> list[str]:
    names = list(runs)
    head = "| table | settings × levels | fewest | " + " | ".join(names) + " |"
    lines = [head, "|---" * (len(names) + 3) + "|"]
    for table in tables:
        if table.label not in next(iter(runs.values()), {}):
            continue
        cells = [f"{np.mean([r.fewest for r in runs[names[0]][table.label]]):.1f}"]
        for name in names:
            rs = runs[name][table.label]
            cells.append(f"{_until(rs):.1f} / {_until(rs, only_measured=True):.1f}")
        lines.append(
            f"| {table.label} | {len(table.settings)} × {len(table.levels)} | " + " | ".join(cells) + " |"
        )
    return lines


def _held(tables: Sequence[PublishedTable], held: Mapping[str, Sequence[HeldOut]], task: str) -> list[str]:
    lines = ["| table | known | " + " | ".join(MODELS) + " | covered |", "|---" * (len(MODELS) + 3) + "|"]
    for table in tables:
        found = [h for h in held.get(table.label, ()) if h.task == task]
        for known in dict.fromkeys(h.known for h in found):
            same = {h.method: h for h in found if h.known == known}
            ours = same["spectune"]
            cover = f"{np.mean(ours.covered):.2f}" if ours.covered else "–"
            lines.append(
                f"| {table.label} | {known} | "
                + " | ".join(_one(same[name]) for name in MODELS)
                + f" | {cover} |"
            )
    return lines


def _one(found: HeldOut) -> str:
    text = f"{100 * np.mean(found.errors):.1f}" if found.errors else "–"
    if found.off_errors:
        text += f" (off {100 * np.mean(found.off_errors):.0f})"
    return text + (
        f", loss {100 * found.choice_loss:.1f} / {100 * found.worst_loss:.0f}"
        if found.task == "settings"
        else ""
    )
