"""Results as Markdown."""

from collections.abc import Mapping, Sequence

import numpy as np

from held_out import HeldOut
from load_tables import PublishedTable
from replay import Run

Runs = Mapping[str, Mapping[str, Sequence[Run]]]
MODELS = ("generic gp", "interpolation", "spectune")


def document(tables: Sequence[PublishedTable], runs: Runs, held: Mapping[str, Sequence[HeldOut]]) -> str:
    """The whole page."""
    parts = [
        "# Planner benchmark",
        "",
        "Published tables replayed as servers. One launch measures every level, with the tables' noise; every "
        "score of a table uses a prior that never saw its source. Written by `run.py`; do not edit.",
        "",
        "## Summary",
        "",
        *_summary(runs, held),
        "",
        "## Launches until the recommendation stays within 1 % of the best at every level",
        "",
        "Mean over seeds. First number: the method may recommend a setting it predicts but did not measure "
        "(models do); second: only measured settings.",
        "",
        *_launches(tables, runs),
        "",
        "## Error on settings that were not launched, from two launches",
        "",
        "Mean |error| in %, off apart; loss = worst level's loss of the recommended setting, %.",
        "",
        *_held(tables, held, "settings"),
        "",
        "## Error on levels that were not measured, from three levels of every launch",
        "",
        *_held(tables, held, "levels"),
        "",
    ]
    return "\n".join(parts)


def _summary(runs: Runs, held: Mapping[str, Sequence[HeldOut]]) -> list[str]:
    lines = [
        "| method | launches | launches, measured only | regret after 1, 2, 3 launches % | stops after (regret there %) | held-out "
        "settings % | best-K loss % | held-out levels % | 80 % interval covers |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by_table in runs.items():
        some = [np.mean([_until(r, False) for r in rs]) for rs in by_table.values()]
        measured = [np.mean([_until(r, True) for r in rs]) for rs in by_table.values()]
        regret = [
            100 * np.mean([np.mean([r.regret[i] for r in rs]) for rs in by_table.values()]) for i in range(3)
        ]
        stops = np.mean([np.mean([r.stopped_after for r in rs]) for rs in by_table.values()])
        at_stop = 100 * np.mean([np.mean([r.regret_at_stop for r in rs]) for rs in by_table.values()])
        lines.append(
            f"| {name} | {np.mean(some):.2f} | {np.mean(measured):.2f} | "
            f"{', '.join(f'{v:.1f}' for v in regret)} | {stops:.1f} ({at_stop:.1f}) | {_held_summary(name, held)} |"
        )
    return lines


def _until(run: Run, only_measured: bool) -> int:
    return run.launches_until_good(only_measured=only_measured)


def _held_summary(name: str, held: Mapping[str, Sequence[HeldOut]]) -> str:
    if name not in MODELS:
        return "– | – | – | –"
    mine = {label: [h for h in found if h.method == name] for label, found in held.items()}
    errors, losses, levels = [], [], []
    covered: list[bool] = []
    for found in mine.values():
        settings = [h for h in found if h.task == "settings"]
        if settings:
            errors.append(np.mean([np.mean(h.errors) for h in settings if h.errors]))
            losses.append(np.mean([h.choice_loss for h in settings]))
        levels += [np.mean([*h.errors, *h.off_errors]) for h in found if h.task == "levels"]
        covered += [c for h in found for c in h.covered]
    cover = f"{np.mean(covered):.2f} of {len(covered)}" if covered else "–"
    return (
        f"{100 * np.mean(errors):.1f} | {100 * np.mean(losses):.1f} | {100 * np.mean(levels):.1f} | {cover}"
    )


def _launches(tables: Sequence[PublishedTable], runs: Runs) -> list[str]:
    names = list(runs)
    lines = ["| table | settings × levels | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for table in tables:
        if table.label not in next(iter(runs.values()), {}):
            continue
        cells = []
        for name in names:
            rs = runs[name][table.label]
            cells.append(
                f"{np.mean([_until(r, False) for r in rs]):.1f} / {np.mean([_until(r, True) for r in rs]):.1f}"
            )
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
    return text + (f", loss {100 * found.choice_loss:.1f}" if found.task == "settings" else "")
