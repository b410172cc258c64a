"""Keeps the error promise of winners to account: `python benchmarks/statistics/simulate.py --studies 1000`.

Draws studies of known truth, runs the real analysis on their raw records and counts what it decided.
`--write` puts the tables into results.md beside this file.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.statistics.studies import LEVELS, Noises, StudyMaker, Truth
from spectune.analysis.comparison import fit_level
from spectune.analysis.launches import measured_levels
from spectune.analysis.noise import PRIOR_NOISE
from spectune.analysis.shortlist import shortlist
from spectune.analysis.study_fit import StudyFit, fit_cells
from spectune.analysis.winners import Winner, find_winners
from spectune.domain.study import ProofRule
from spectune.planning.staged import finalists_of

COLUMNS = (
    "row",
    "studies with a wrong decided winner",
    "levels with one",
    "gaps ≥ 5 % decided",
    "all decided",
    "mean loss of winners",
)
HERE = Path(__file__).parent
TIE = 0.01
WIDE_GAP = 0.05
PROMPTS_ALONE = replace(PRIOR_NOISE, launch_sd=0.0, launch_degrees=1e6)
NAIVE = "naive: one launch, prompt noise only"
SEARCH = "spectune, search only"
DEFAULT = "spectune, default: one round"
THOROUGH = "spectune, --thorough: two rounds"
ROWS = (NAIVE, SEARCH, DEFAULT, THOROUGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One level's winner against the truth.

    Attributes:
        gap: share by which the truly second best stays below the best.
        loss: share of the truly best speed that the winner loses.
        decided: what the analysis said.
    """

    gap: float
    loss: float
    decided: bool

    @property
    def is_wrong(self) -> bool:
        """A decided winner that truly loses more than a tie."""
        return self.decided and self.loss > TIE


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a row made of many studies.

    Attributes:
        wrong_studies: share of studies with a wrong decided winner at any level.
        wrong_levels: share of levels with one.
        decided_wide: share of levels decided among those whose best is truly 5 % or more ahead.
        decided: share of all levels decided.
        mean_loss: mean share that winners, decided or not, truly lose.
    """

    wrong_studies: float
    wrong_levels: float
    decided_wide: float
    decided: float
    mean_loss: float


def judge_study(
    seed: int, *, noises: Noises, levels: tuple[int, ...] = LEVELS
) -> dict[str, tuple[Verdict, ...]]:
    """Every row's verdicts on one drawn study."""
    maker = StudyMaker(seed, noises, levels)
    search = maker.search()
    found = shortlist(search)
    once, twice = (finalists_of(found, ProofRule(rounds=rounds)) for rounds in (1, 2))
    first = maker.again(twice)
    later = (*first, *maker.again(twice[::-1]))
    cells = measured_levels(replace(search, outcomes=(*search.outcomes, *later)))
    searched = {outcome.trial.id for outcome in search.outcomes}
    default = searched | {outcome.trial.id for outcome in first if outcome.trial.config in once}
    alone = fit_cells(tuple(cell for cell in cells if cell.trial in searched))
    winners = {
        NAIVE: _naive_winners(alone, levels),
        SEARCH: find_winners(alone.levels, levels),
        DEFAULT: find_winners(fit_cells(tuple(c for c in cells if c.trial in default)).levels, levels),
        THOROUGH: find_winners(fit_cells(cells).levels, levels),
    }
    return {row: _verdicts(found, maker.truth) for row, found in winners.items()}


def score(studies: Iterable[tuple[Verdict, ...]]) -> Score:
    """The counts over studies."""
    kept = list(studies)
    levels = [verdict for study in kept for verdict in study]
    wide = [verdict.decided for verdict in levels if verdict.gap >= WIDE_GAP]
    return Score(
        wrong_studies=_share(any(verdict.is_wrong for verdict in study) for study in kept),
        wrong_levels=_share(verdict.is_wrong for verdict in levels),
        decided_wide=_share(wide),
        decided=_share(verdict.decided for verdict in levels),
        mean_loss=sum(verdict.loss for verdict in levels) / len(levels),
    )


def simulate(num_studies: int, seed: int, noises: Noises, workers: int) -> dict[str, Score]:
    """Every row's score over drawn studies."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + num_studies)
    judge = partial(judge_study, noises=noises)
    if workers < 2:
        judged = list(map(judge, seeds))
    else:
        with ProcessPoolExecutor(workers) as pool:
            judged = list(pool.map(judge, seeds, chunksize=10))
    return {name: score(study[name] for study in judged) for name in ROWS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--launch-sd", type=float, nargs="+", default=[0.005, 0.015, 0.03])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="into results.md")
    args = parser.parse_args()
    tables, begin = [], time.monotonic()
    for launch in args.launch_sd:
        scores = simulate(args.studies, args.seed, Noises(launch=launch), args.workers)
        tables.append(_table(launch, scores))
        print(tables[-1], flush=True)
    print(f"{time.monotonic() - begin:.0f} s")
    if args.write:
        head = (HERE / "method.md").read_text("utf-8")
        command = f"python benchmarks/statistics/simulate.py --studies {args.studies} --seed {args.seed}"
        text = head.format(command=command, studies=args.studies)
        (HERE / "results.md").write_text(text + "\n" + "\n".join(tables), encoding="utf-8")
    return 0


def _naive_winners(searched: StudyFit, levels: tuple[int, ...]) -> tuple[Winner, ...]:
    """One launch each and the noise of prompts alone."""
    fits = {level: fit_level(cells, PROMPTS_ALONE) for level, cells in searched.cells.items()}
    return find_winners({level: fit for level, fit in fits.items() if fit is not None}, levels)


def _table(launch: float, scores: dict[str, Score]) -> str:
    lines = [
        f"### True launch noise {launch:.1%}",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, found in scores.items():
        shares = (found.wrong_studies, found.wrong_levels, found.decided_wide, found.decided)
        lines.append(f"| {name} | {' | '.join(f'{s:.1%}' for s in shares)} | {found.mean_loss:.2%} |")
    return "\n".join(lines) + "\n"


def _verdicts(winners: Iterable[Winner], truth: Truth) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(
            gap=truth.gap(winner.concurrency),
            loss=truth.losses[winner.concurrency][winner.config],
            decided=winner.decided,
        )
        for winner in winners
    )


def _share(values: Iterable[bool]) -> float:
    kept = list(values)
    return sum(kept) / len(kept) if kept else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
