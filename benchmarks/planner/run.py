"""Compares planners and predictors on replayed tables: `python -m benchmarks.planner.run [--quick]`.

Writes results.md and results.svg beside itself. Every score of a table uses a prior that never saw its
source. Needs the extra `spectune[bench]`; Optuna's GP sampler needs PyTorch too and is left out without it.
"""

import argparse
import importlib.util
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.planner.chart import chart
from benchmarks.planner.held_out import HeldOut, held_out_levels, held_out_settings
from benchmarks.planner.load_tables import PublishedTable, load_tables
from benchmarks.planner.methods import GaussianProcess, Grid, Interpolation, Method, Optuna, Ours, Random
from benchmarks.planner.priors import learn_prior
from benchmarks.planner.replay import Run, replay
from benchmarks.planner.tables_text import document
from benchmarks.planner.transfer_eval import Shift, shifts
from spectune.perfmodel.priors import Prior

HERE = Path(__file__).parent
MIN_SETTINGS = 4  # fewer leave nothing to save


def methods(prior: Prior, seed: int, *, has_gp_sampler: bool) -> list[Method]:
    """All methods, fresh."""
    optuna = [Optuna(seed=seed, sampler="tpe")]
    if has_gp_sampler:
        optuna.append(Optuna(seed=seed, sampler="gp"))
    return [
        Grid(),
        Random(seed=seed),
        *optuna,
        GaussianProcess(),
        Interpolation(),
        Ours(prior=prior, seed=seed),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one seed, no Optuna GP")
    parser.add_argument("--only", default="", help="part of a table's label")
    args = parser.parse_args()
    begin = time.monotonic()
    tables = [t for t in load_tables() if args.only in t.label]
    sources = sorted({t.source for t in tables})
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=spawn, initializer=_raise_on_bad_numbers) as pool:
        priors = dict(zip(sources, pool.map(_prior_without, sources), strict=True))
        seeds, has_gp_sampler = 1 if args.quick else args.seeds, not args.quick and _has_torch()
        runs = _replays(pool, _jobs(tables, priors, seeds, has_gp_sampler=has_gp_sampler))
        asked = [(table, priors[table.source]) for table in tables]
        held = dict(zip((t.label for t in tables), pool.map(_held_out, asked), strict=True))
    text = document(tables, runs, held, _transfers(tables, priors))
    print(text)
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    if not args.only:
        (HERE / "results.md").write_text(text, encoding="utf-8")
        (HERE / "results.svg").write_text(chart(runs), encoding="utf-8")
    return 0


def _prior_without(source: str) -> Prior:
    return learn_prior(load_tables(), without=source)


def _held_out(asked: tuple[PublishedTable, Prior]) -> list[HeldOut]:
    return [*held_out_settings(*asked), *held_out_levels(*asked)]


Job = tuple[PublishedTable, int, Prior, bool]


def _jobs(
    tables: list[PublishedTable], priors: dict[str, Prior], seeds: int, *, has_gp_sampler: bool
) -> list[Job]:
    """One table and seed each."""
    return [
        (table, seed, priors[table.source], has_gp_sampler)
        for table in tables
        if len(table.settings) >= MIN_SETTINGS and len({c.workload for c in table.truth}) == 1
        for seed in range(seeds)
    ]


def _replays(pool: ProcessPoolExecutor, jobs: list[Job]) -> dict[str, dict[str, list[Run]]]:
    """Runs by method name, then table label."""
    runs: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for (table, *_), found in zip(jobs, pool.map(_replay_all, jobs), strict=True):
        for name, run in found.items():
            runs[name][table.label].append(run)
    return runs


def _replay_all(job: Job) -> dict[str, Run]:
    """One table and seed by every method."""
    table, seed, prior, has_gp_sampler = job
    found = methods(prior, seed, has_gp_sampler=has_gp_sampler)
    return {method.name: replay(table, method, seed) for method in found}


def _transfers(tables: list[PublishedTable], priors: dict[str, Prior]) -> list[Shift]:
    several = [t for t in tables if len({c.workload for c in t.truth}) > 1]
    return [s for t in several for s in shifts([t], priors[t.source])]


def _raise_on_bad_numbers() -> None:
    np.seterr(all="raise", under="ignore")


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


if __name__ == "__main__":
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")  # a process per core; read by the processes started from here
    _raise_on_bad_numbers()
    sys.exit(main())
