"""Puts table, model, planner and report together for `spectune predict`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.errors import ConfigError
from spectune.perfmodel.acceptance_text import acceptance_rows, parse_acceptance
from spectune.perfmodel.checks import (
    capacity_warnings,
    ceiling_warnings,
    overload_warnings,
    reach_warnings,
)
from spectune.perfmodel.evidence import Evidence, Setting, SpeedRow, split_overload
from spectune.perfmodel.pool_capacity import BetterLimit, better_limits
from spectune.perfmodel.prediction import Prediction, predict
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.perfmodel.surprises import surprise_warnings, surprises
from spectune.perfmodel.table import Table, evidence_of, parse_table
from spectune.perfmodel.transfer import re_rank, transfer_warnings, with_text
from spectune.planning.next_measurement import next_measurement
from spectune.report.prediction_report import PredictionPage, TransferPart

SEED = 0
MAX_CELLS = 1200
MAX_ROWS = 1200  # so many take half a minute of CPU; a grid of 10 settings at 10 levels has 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is predicted; empty takes the measured range and levels."""

    num_steps: Sequence[int] = ()
    concurrency: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrompts:
    """Acceptance of other prompts.

    Attributes:
        text: of the file.
        name: of the file.
        running: num_steps that runs now; None for the table's best of each level.
    """

    text: str
    name: str
    running: int | None = None


ALL = Grid()


def answer(text: str, name: str, grid: Grid = ALL, new: NewPrompts | None = None) -> PredictionPage:
    """Everything a table's text says, and what changes for new prompts."""
    table = parse_table(text, name)
    settings, levels = _settings(table, grid), _levels(table, grid)
    _check_size(table, name, len(settings), len(levels))
    evidence = evidence_of(table, [s.num_draft_tokens for s in settings])
    sound, overloaded = split_overload(evidence.speeds)
    evidence = evidence.with_speeds(sound)
    prediction = predict(evidence, settings, levels, prior=DEFAULT_PRIOR, rng=np.random.default_rng(SEED))
    part = None if new is None else _transfer(evidence, prediction, settings, new)
    return PredictionPage(
        name=name,
        num_rows=len(sound),
        prediction=prediction,
        next_step=next_measurement(prediction, evidence),
        warnings=_warnings(table, evidence, overloaded, prediction),
        limits=_limits(table, settings),
        transfer=part,
    )


def _limits(table: Table, settings: Sequence[Setting]) -> tuple[BetterLimit, ...]:
    """What another limit on running requests changes, where the model's shape tells."""
    if table.pools is None:
        return ()
    tokens = [s.num_draft_tokens for s in settings]
    return better_limits(table.pools, table.requests_read, table.tokens_read, tokens)


def _settings(table: Table, grid: Grid) -> list[Setting]:
    measured = sorted({row.cell.setting for row in table.rows})
    depths = [s.num_steps for s in measured]
    chains = {Setting.chain(k) for k in (grid.num_steps or range(depths[0], depths[-1] + 1))}
    return sorted(chains | {s for s in measured if s.topk > 1})


def _levels(table: Table, grid: Grid) -> list[int]:
    return sorted(set(grid.concurrency) or {row.cell.concurrency for row in table.rows})


def _check_size(table: Table, name: str, num_settings: int, num_levels: int) -> None:
    if len(table.rows) > MAX_ROWS:
        raise ConfigError(
            f"{name}: `at most {MAX_ROWS} rows` must hold, got {len(table.rows)}; leave out settings or "
            "levels, or put the mean of a cell's repeats in one row."
        )
    texts = {row.cell.workload for row in table.rows}
    if num_settings * num_levels * len(texts) > MAX_CELLS:
        raise ConfigError(
            f"{name}: `at most {MAX_CELLS} cells` must hold, got {num_settings} settings × {num_levels} "
            f"levels × {len(texts)} texts; shorten --num-steps or --concurrency."
        )


def _warnings(
    table: Table, evidence: Evidence, overloaded: Sequence[SpeedRow], prediction: Prediction
) -> tuple[str, ...]:
    cells = prediction.posterior.cells
    settings = sorted({cell.setting for cell in cells})
    levels = sorted({cell.concurrency for cell in cells})
    ignored = (f"columns not read: {', '.join(table.ignored)}",) if table.ignored else ()
    return (
        *ceiling_warnings(evidence),
        *overload_warnings(overloaded),
        *surprise_warnings(surprises(evidence, prior=DEFAULT_PRIOR)),
        *reach_warnings(evidence, settings, levels),
        *capacity_warnings(evidence, cells),
        *ignored,
    )


def _transfer(
    evidence: Evidence, prediction: Prediction, settings: Sequence[Setting], new: NewPrompts
) -> TransferPart:
    """What the acceptance of new prompts calls for at every level."""
    runs = parse_acceptance(new.text, new.name)
    rows = acceptance_rows(runs, [s.num_steps for s in settings if s.topk == 1])
    chains = [s for s in settings if s.topk == 1]
    texts = sorted({winner.cell.workload for winner in prediction.winners})
    own = max(texts) + "+"  # a name that no text of the table has
    current = {w.cell.concurrency: w.cell.setting for w in prediction.winners if w.cell.workload == texts[0]}
    if new.running is not None:
        if Setting.chain(new.running) not in chains:
            raise ConfigError(
                f"--running: `one of the predicted num_steps` must hold, got {new.running}; name it in "
                "--num-steps too."
            )
        current = dict.fromkeys(current, Setting.chain(new.running))
    verdicts = re_rank(
        with_text(evidence, own, rows),
        own,
        current,
        sorted({*chains, *current.values()}),
        prior=DEFAULT_PRIOR,
        rng=np.random.default_rng(SEED),
    )
    return TransferPart(
        name=new.name,
        lengths=tuple((run.num_steps, run.acceptance_length) for run in runs),
        verdicts=verdicts,
        warnings=transfer_warnings(evidence, rows, verdicts, prior=DEFAULT_PRIOR),
    )
