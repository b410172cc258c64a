"""The model search against the full grid on the embedded engine (real processes, real measurements).

Every run measures all of num_steps 0 … 8 at every level (`spectune tune --search grid --num-steps 0..8`),
then the model planner is replayed over those measurements: it sees only the outcomes it asks for, in the
order it asks. So both searches judge the same measurements of the same server, and a run costs one grid.
The model planner draws at random, so each grid is replayed with several of its seeds.

    python benchmarks/embedded_search.py [--runs 3] [--seeds 8] [--budget 200] [--store FILE] [--out FILE]

Reports, per run: launches of grid and model, and per level the loss of the model's choice against the
grid's best, and whether it lies inside the 95 % interval of that difference. Nothing else should run on the
machine meanwhile.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from spectune import __version__
from spectune.analysis.comparison import SpeedDifference
from spectune.analysis.study_fit import fit_study
from spectune.clock import SystemClock
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import TrialOutcome
from spectune.planning.grid import GridPlanner
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Planner, Propose, Stop
from spectune.storage.sqlite_store import SqliteStore


@dataclass(frozen=True)
class Row:
    """One level of one run: the best setting of the grid, the model's choice, and its loss."""

    run: int
    concurrency: int
    grid_best: str
    choice: str
    loss: float
    inside_interval: bool


def replay(planner: Planner, full: StudyHistory) -> tuple[TrialOutcome, ...]:
    """The outcomes a planner asks for, out of a study that measured everything."""
    by_config = {outcome.trial.config: outcome for outcome in full.outcomes if outcome.trial.is_of_search}
    seen: list[TrialOutcome] = []
    while True:
        match planner.next(full.study, replace(full, outcomes=tuple(seen), finished="")):
            case Stop():
                return tuple(seen)
            case Propose(trial=trial):
                outcome = by_config[trial.config]
                seen.append(replace(outcome, trial=replace(outcome.trial, id=trial.id)))


def judge(run: int, full: StudyHistory, asked: tuple[TrialOutcome, ...]) -> list[Row]:
    """The model's choice at every level against the grid's best."""
    seen = fit_study(replace(full, outcomes=asked)).levels
    rows = []
    for concurrency, fit in fit_study(full).levels.items():
        best = max(fit.arms, key=fit.tps)
        choice = max(seen[concurrency].arms, key=seen[concurrency].tps)
        same = SpeedDifference(ratio=1.0, ratio_ci=(1.0, 1.0))
        difference = same if best == choice else fit.difference(best, choice)
        rows.append(
            Row(
                run=run,
                concurrency=concurrency,
                grid_best=best.config.label,
                choice=choice.config.label,
                loss=1 - 1 / difference.ratio,
                inside_interval=best == choice or not difference.is_decided,
            )
        )
    return rows


def run_grid(store: Path, budget: str) -> None:
    """One exhaustive study into the store."""
    words = [
        sys.executable,
        "-m",
        "spectune",
        "tune",
        "--num-steps",
        "0..8",
        "--search",
        "grid",
        "--confirm",
        "0",
    ]
    subprocess.run([*words, "--budget", budget, "--store", str(store)], check=True, stdout=subprocess.DEVNULL)


def report(histories: list[StudyHistory], seeds: int) -> str:
    """Both tables as Markdown."""
    lines = [
        "| run | grid launches | until passed | model launches, by seed | share of grid |",
        "|---|---|---|---|---|",
    ]
    rows: list[Row] = []
    shares = []
    for run, full in enumerate(histories, 1):
        counts = []
        for seed in range(seeds):
            asked = replay(ModelPlanner(), replace(full, study=open_study(full, seed)))
            counts.append(len(asked))
            rows += judge(run, full, asked)
        passed = len(replay(GridPlanner(), replace(full, study=open_study(full, 0))))
        shares.append(sum(counts) / seeds / len(full.outcomes))
        told = ", ".join(map(str, counts))
        lines.append(f"| {run} | {len(full.outcomes)} | {passed} | {told} | {shares[-1]:.0%} |")
    inside = sum(r.inside_interval for r in rows)
    loss = sum(r.loss for r in rows) / len(rows)
    lines += ["", f"Mean share of the grid's launches: {sum(shares) / len(shares):.0%}.", ""]
    lines += [f"Choices inside the interval: {inside} of {len(rows)}; mean loss {loss:.1%}.", ""]
    lines += ["| run | concurrency | grid's best | model's choices | mean loss | inside the interval |"]
    lines += ["|---|---|---|---|---|---|"]
    return "\n".join(
        lines + [_level_line(key, rows) for key in sorted({(r.run, r.concurrency) for r in rows})]
    )


def _level_line(key: tuple[int, int], rows: list[Row]) -> str:
    """One level of one run over all seeds."""
    own = [r for r in rows if (r.run, r.concurrency) == key]
    chosen = ", ".join(f"{label} ({count})" for label, count in Counter(r.choice for r in own).most_common())
    loss = sum(r.loss for r in own) / len(own)
    inside = sum(r.inside_interval for r in own)
    return f"| {key[0]} | {key[1]} | {own[0].grid_best} | {chosen} | {loss:.1%} | {inside} of {len(own)} |"


def open_study(full: StudyHistory, seed: int) -> Study:
    """The study as a planner sees it that need not launch everything, with a seed of its own."""
    study = full.study
    space = replace(study.space, is_exhaustive=False)
    return replace(study, space=space, workload=replace(study.workload, seed=seed))


def main() -> int:
    """Measures, replays, prints; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=8, help="replays of each grid")
    parser.add_argument("--budget", default="200")
    parser.add_argument("--store", type=Path, help="keeps the studies; an existing one is only replayed")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    store_file = args.store or Path(tempfile.mkdtemp()) / "studies.db"
    if not store_file.exists():
        for _ in range(args.runs):
            run_grid(store_file, args.budget)
    store = SqliteStore(store_file, SystemClock(), __version__)
    histories = [store.history(summary.study.id) for summary in store.studies() if summary.finished]
    text = report(histories, args.seeds) + "\n"
    print(text)
    if args.out:
        title = "# Model search against the grid on the embedded engine"
        args.out.write_text(f"{title}\n\n{text}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
