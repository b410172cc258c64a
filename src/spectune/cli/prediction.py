"""Puts table, model, planner and report together for `spectune predict`."""

from collections.abc import Sequence

import numpy as np

from spectune.errors import ConfigError
from spectune.perfmodel.checks import (
    capacity_warnings,
    ceiling_warnings,
    overload_warnings,
    reach_warnings,
)
from spectune.perfmodel.evidence import Setting, split_overload
from spectune.perfmodel.prediction import predict
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.table import evidence_of, parse_table
from spectune.planning.next_measurement import next_measurement
from spectune.report.prediction_report import PredictionPage

SEED = 0
MAX_CELLS = 1200


def answer(
    text: str, name: str, *, num_steps: Sequence[int] = (), concurrency: Sequence[int] = ()
) -> PredictionPage:
    """Everything a table's text says; empty lists take the measured range and levels."""
    table = parse_table(text, name)
    measured = sorted({row.cell.setting for row in table.rows})
    depths = [s.num_steps for s in measured]
    chains = {Setting.chain(k) for k in (num_steps or range(depths[0], depths[-1] + 1))}
    settings = sorted(chains | {s for s in measured if s.topk > 1})
    levels = sorted(set(concurrency) or {row.cell.concurrency for row in table.rows})
    texts = {row.cell.workload for row in table.rows}
    if len(settings) * len(levels) * len(texts) > MAX_CELLS:
        raise ConfigError(
            f"{name}: `at most {MAX_CELLS} cells` must hold, got {len(settings)} settings × {len(levels)} "
            "levels × "
            f"{len(texts)} texts; shorten --num-steps or --concurrency."
        )
    evidence = evidence_of(table.rows, [s.num_draft_tokens for s in settings])
    sound, overloaded = split_overload(evidence.speeds)
    evidence = evidence.with_speeds(sound)
    prediction = predict(evidence, settings, levels, prior=DEFAULT_PRIOR, rng=np.random.default_rng(SEED))
    ignored = (f"columns not read: {', '.join(table.ignored)}",) if table.ignored else ()
    return PredictionPage(
        name=name,
        num_rows=len(sound),
        prediction=prediction,
        next_step=next_measurement(prediction, evidence),
        warnings=(
            *ceiling_warnings(evidence),
            *overload_warnings(overloaded),
            *reach_warnings(evidence, settings, levels),
            *capacity_warnings(evidence, prediction.posterior.cells),
            *ignored,
        ),
    )
