"""The model search against the full grid on the embedded engine (real processes, real measurements).

Every run measures all of num_steps 0 … 8 at every level (`spectune tune --search grid --num-steps 0..8`),
then the model planner is replayed over those measurements: it sees only the outcomes it asks for, in the
order it asks. So both searches judge the same measurements of the same server, and a run costs one grid.

    python benchmarks/embedded_search.py [--runs 3] [--budget 200] [--store FILE] [--out results.md]

Reports, per run: launches of grid and model, and per level the loss of the model's choice against the
grid's best, with the 95 % interval of that difference. Nothing else should run on the machine meanwhile.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from spectune import __version__
from spectune.analysis.comparison import SpeedDifference
from spectune.analysis.study_fit import fit_study
from spectune.clock import SystemClock
from spectune.domain.study import StudyHistory
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


def report(histories: list[StudyHistory]) -> str:
    """Both tables as Markdown."""
    lines = [
        "| run | grid launches | until passed | model launches | share of grid |",
        "|---|---|---|---|---|",
    ]
    rows: list[Row] = []
    shares = []
    for run, full in enumerate(histories, 1):
        open_space = replace(full.study, space=replace(full.study.space, is_exhaustive=False))
        passed = replay(GridPlanner(), replace(full, study=open_space))
        asked = replay(ModelPlanner(), replace(full, study=open_space))
        shares.append(len(asked) / len(full.outcomes))
        lines.append(f"| {run} | {len(full.outcomes)} | {len(passed)} | {len(asked)} | {shares[-1]:.0%} |")
        rows += judge(run, full, asked)
    lines += ["", f"mean share of the grid's launches: {sum(shares) / len(shares):.0%}", ""]
    lines += ["| run | concurrency | grid's best | model's choice | loss | inside the interval |"]
    lines += ["|---|---|---|---|---|---|"]
    for r in rows:
        inside = "yes" if r.inside_interval else "no"
        lines.append(f"| {r.run} | {r.concurrency} | {r.grid_best} | {r.choice} | {r.loss:.1%} | {inside} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures, replays, prints; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--budget", default="200")
    parser.add_argument("--store", type=Path, help="keeps the studies; an existing one is only replayed")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    store_file = args.store or Path(tempfile.mkdtemp()) / "studies.db"
    if not store_file.exists():
        for _ in range(args.runs):
            run_grid(store_file, args.budget)
    store = SqliteStore(store_file, SystemClock(), __version__)
    text = report([store.history(summary.study.id) for summary in store.studies() if summary.finished])
    print(text)
    if args.out:
        title = "# Model search against the grid on the embedded engine"
        args.out.write_text(f"{title}\n\n{text}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
