"""How long a fit and a posterior take on every published table, all of it measured; CPU seconds."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.planner.load_tables import PublishedTable
from spectune.perfmodel.fitting import best, layout_of, problem_of
from spectune.perfmodel.posterior import sample
from spectune.perfmodel.priors import DEFAULT_PRIOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """CPU seconds of one table's fit, and of 200 draws of all its cells under every hypothesis."""

    table: str
    num_cells: int
    fit_s: float
    posterior_s: float


def timings(tables: Sequence[PublishedTable]) -> list[Timing]:
    """One timing per table."""
    return [_timing(table) for table in tables]


def timing_text(found: Sequence[Timing]) -> str:
    """The slowest of each as one sentence."""
    fit, draw = max(found, key=lambda t: t.fit_s), max(found, key=lambda t: t.posterior_s)
    return (
        f"CPU seconds on the machine of this run, slowest of {len(found)} tables: a fit "
        f"{fit.fit_s:.2f} ({fit.table}, {fit.num_cells} cells), a posterior {draw.posterior_s:.2f} "
        f"({draw.table}, {draw.num_cells} cells)."
    )


def _timing(table: PublishedTable) -> Timing:
    evidence = table.evidence()
    capacity = evidence.capacity[0] if evidence.capacity else None
    begin = time.process_time()
    best(problem_of(evidence, layout_of(evidence), DEFAULT_PRIOR, (capacity,)))
    fitted = time.process_time()
    sample(evidence, tuple(table.truth), prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))
    return Timing(
        table=table.label,
        num_cells=len(table.truth),
        fit_s=fitted - begin,
        posterior_s=time.process_time() - fitted,
    )
