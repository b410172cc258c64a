"""A prediction as a page and as JSON. Predicted cells carry "~" and are never shown as measured."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from spectune.perfmodel.crossovers import Crossover
from spectune.perfmodel.evidence import Setting
from spectune.perfmodel.pool_capacity import BetterLimit
from spectune.perfmodel.prediction import (
    CI_LEVEL,
    CapacityCost,
    NextMeasurement,
    PredictedCell,
    Prediction,
    Winner,
)
from spectune.perfmodel.transfer import Transfer
from spectune.report.document import Block, Document, Items, Paragraph, Section, Table
from spectune.report.numbers import percent, rate

SCHEMA = "spectune.prediction/1"
_CAUSES = {
    "capacity": "capacity: requests wait for a slot",
    "verification cost": "verification cost: a step gets longer with the tokens it verifies",
    "verification share": "verification cost: more tokens add less to the step of a larger batch",
    "acceptance": "acceptance: the extra draft tokens are mostly rejected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPart:
    """What the acceptance of new prompts calls for.

    Attributes:
        name: the acceptance file's name.
        lengths: (num_steps, acceptance length) of its runs.
        verdicts: one for each level.
        warnings: why that may not be enough.
    """

    name: str
    lengths: tuple[tuple[int, float], ...]
    verdicts: tuple[Transfer, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPage:
    """Everything `spectune predict` says.

    Attributes:
        name: the table's name.
        num_rows: rows that were fitted.
        prediction: surface and answers.
        next_step: most valuable next measurement, or None.
        warnings: what should not be trusted.
        transfer: what new prompts call for, or None.
        limits: limits on running requests that make more room, where the model's shape tells.
    """

    name: str
    num_rows: int
    prediction: Prediction
    next_step: NextMeasurement | None
    warnings: tuple[str, ...]
    transfer: TransferPart | None = None
    limits: tuple[BetterLimit, ...] = ()


def prediction_json(page: PredictionPage) -> str:
    """The page as JSON, schema spectune.prediction/1 (docs/prediction-schema.md)."""
    prediction, step = page.prediction, page.next_step
    data: dict[str, object] = {
        "schema": SCHEMA,
        "ci_level": CI_LEVEL,
        "surface": [_cell_json(cell) for cell in prediction.surface],
        "winners": [_winner_json(winner) for winner in prediction.winners],
        "crossovers": [_crossover_json(crossover) for crossover in prediction.crossovers],
        "next": None
        if step is None
        else {
            "num_steps": step.setting.num_steps,
            "topk": step.setting.topk,
            "concurrency": list(step.concurrency),
            "value": _rounded(step.value),
        },
        "warnings": list(page.warnings),
        "capacity": [_capacity_json(cost) for cost in prediction.capacity_costs],
        "limits": [
            {
                "num_draft_tokens": one.draft_tokens,
                "running": one.now,
                "max_running_requests": one.limit,
                "running_then": one.then,
            }
            for one in page.limits
        ],
        "table": {"name": page.name, "rows": page.num_rows},
    }
    if page.transfer is not None:
        data["new_prompts"] = _transfer_json(page.transfer)
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def prediction_document(page: PredictionPage) -> Document:
    """The page for people."""
    prediction = page.prediction
    texts = sorted({cell.cell.workload for cell in prediction.surface})
    surfaces = [
        Section(
            title="Total tok/s" + (f", {text}" if text else ""),
            blocks=(_surface_table(prediction, text),),
        )
        for text in texts
    ]
    sections = [
        *surfaces,
        Section(title="Best setting per level", blocks=(_winner_table(prediction.winners),)),
        Section(title="Where the best setting changes", blocks=(_crossovers(prediction.crossovers),)),
    ]
    if prediction.capacity_costs:
        blocks = _capacity(prediction.capacity_costs, page.limits)
        sections.append(Section(title="What capacity costs", blocks=blocks))
    if page.transfer is not None:
        sections.append(_transfer_section(page.transfer))
    sections.append(Section(title="Next measurement", blocks=(Paragraph(text=_next(page.next_step)),)))
    if page.warnings:
        sections.append(Section(title="Warnings", blocks=(Items(items=page.warnings),)))
    return Document(
        title=f"spectune prediction from {page.name}",
        lead=(
            Paragraph(
                text=f"Fitted to {page.num_rows} measured rows. ~ marks predicted cells, * the best of a "
                f"level; brackets hold where one more measurement falls with {percent(CI_LEVEL)} probability."
            ),
        ),
        sections=tuple(sections),
    )


def _surface_table(prediction: Prediction, text: str) -> Table:
    cells = {(c.cell.setting, c.cell.concurrency): c for c in prediction.surface if c.cell.workload == text}
    levels = sorted({level for _, level in cells})
    best = {w.cell.concurrency: w.cell.setting for w in prediction.winners if w.cell.workload == text}
    rows = tuple(
        (setting.label, *(_cell_text(cells[setting, c], is_best=best[c] == setting) for c in levels))
        for setting in sorted({setting for setting, _ in cells})
    )
    return Table(head=("num_steps", *(f"c={level}" for level in levels)), rows=rows)


def _cell_text(cell: PredictedCell, *, is_best: bool) -> str:
    low, high = cell.output_tps_ci
    mark = "" if cell.is_measured else "~"
    return f"{'*' if is_best else ''}{mark}{rate(cell.output_tps)} [{rate(low)}, {rate(high)}]"


def _winner_table(winners: Sequence[Winner]) -> Table:
    has_text = any(w.cell.workload for w in winners)
    titles = ("concurrency", "num_steps", "probability", "expected loss", "known by")
    head = ("text", *titles) if has_text else titles
    rows = tuple(
        (
            *((w.cell.workload,) if has_text else ()),
            str(w.cell.concurrency),
            w.cell.setting.label,
            percent(w.probability),
            percent(w.expected_loss),
            "measurement" if w.is_measured else "prediction",
        )
        for w in winners
    )
    return Table(head=head, rows=rows)


def _crossovers(found: Sequence[Crossover]) -> Block:
    if not found:
        return Paragraph(
            text="Nowhere between these levels: one setting is best, or within 1 %, at all of them."
        )
    return Items(
        items=tuple(
            f"{_named(c.before)} → {_named(c.after)} between concurrency {c.concurrency[0]} and "
            f"{c.concurrency[1]}{f' ({c.workload})' if c.workload else ''}: {_cause(c)}"
            for c in found
        )
    )


def _cause(crossover: Crossover) -> str:
    """The cause in words; a change to more steps cannot come of steps that get longer."""
    is_deeper = crossover.after.num_steps > crossover.before.num_steps
    if crossover.cause == "verification cost" and is_deeper:
        return _CAUSES["verification share"]
    return _CAUSES[crossover.cause]


def _capacity(costs: Sequence[CapacityCost], limits: Sequence[BetterLimit]) -> tuple[Block, ...]:
    lines = tuple(
        f"concurrency {c.concurrency}{f' ({c.workload})' if c.workload else ''}: {_named(c.winner)} runs "
        f"{c.running} at once; if all ran, {_named(c.free_winner)} would be best, predicted "
        f"{percent(c.gain, signed=True)} {_interval(c.gain_ci)}"
        for c in costs
    )
    advice = (
        "A larger batch than was ever run is extrapolated: raise capacity and measure. Flags that do: a "
        "--max-running-requests close to the real limit, narrower recurrent states "
        "(--mamba-ssm-dtype bfloat16) or keys and values, a larger memory fraction."
    )
    flags = tuple(
        f"{one.draft_tokens} draft tokens: --max-running-requests {one.limit} makes room for {one.then} "
        f"requests instead of {one.now}, from the model's shape and the read-back"
        for one in limits
    )
    return (Items(items=(*lines, *flags)), Paragraph(text=advice))


def _transfer_section(part: TransferPart) -> Section:
    """All predicted: nothing was timed on the new prompts."""
    runs = ", ".join(f"{length:.2f} at num_steps {steps}" for steps, length in part.lengths)
    rows = tuple(
        (
            str(one.concurrency),
            one.current.label,
            one.best.label,
            f"~{percent(one.gain, signed=True)} {_interval(one.gain_ci)}",
            one.verdict,
        )
        for one in part.verdicts
    )
    head = ("concurrency", "running", "best for them", "predicted gain", "verdict")
    blocks: tuple[Block, ...] = (
        Paragraph(text=f"Tokens per step from {part.name}: {runs}. Speeds are predicted, none was timed."),
        Table(head=head, rows=rows),
        Items(items=part.warnings),
    )
    return Section(title="New prompts", blocks=blocks)


def _next(step: NextMeasurement | None) -> str:
    if step is None:
        return "Nothing in this grid is expected to change an answer; confirm the winners on a fresh launch."
    levels = ", ".join(map(str, step.concurrency))
    return (
        f"Launch {_named(step.setting)} and measure concurrency {levels}: expected to gain "
        f"{percent(step.value)} "
        "of speed, the most for its downtime."
    )


def _interval(ends: tuple[float, float]) -> str:
    return f"[{percent(ends[0], signed=True)}, {percent(ends[1], signed=True)}]"


def _named(setting: Setting) -> str:
    return "off" if setting.is_off else f"num_steps {setting.label}"


def _cell_json(cell: PredictedCell) -> dict[str, object]:
    return {
        "num_steps": cell.cell.setting.num_steps,
        "topk": cell.cell.setting.topk,
        "concurrency": cell.cell.concurrency,
        "output_tps": _rounded(cell.output_tps),
        "output_tps_ci": [_rounded(v) for v in cell.output_tps_ci],
        "measured": cell.is_measured,
        "workload": cell.cell.workload,
    }


def _winner_json(winner: Winner) -> dict[str, object]:
    return {
        "concurrency": winner.cell.concurrency,
        "num_steps": winner.cell.setting.num_steps,
        "probability": _rounded(winner.probability),
        "expected_loss": _rounded(winner.expected_loss),
        "topk": winner.cell.setting.topk,
        "measured": winner.is_measured,
        "workload": winner.cell.workload,
    }


def _crossover_json(crossover: Crossover) -> dict[str, object]:
    return {
        "from": crossover.before.num_steps,
        "to": crossover.after.num_steps,
        "concurrency": list(crossover.concurrency),
        "cause": crossover.cause,
        "workload": crossover.workload,
    }


def _capacity_json(cost: CapacityCost) -> dict[str, object]:
    return {
        "concurrency": cost.concurrency,
        "workload": cost.workload,
        "num_steps": cost.winner.num_steps,
        "running": cost.running,
        "num_steps_without_limit": cost.free_winner.num_steps,
        "gain_without_limit": _rounded(cost.gain),
        "gain_ci": [_rounded(v) for v in cost.gain_ci],
    }


def _transfer_json(part: TransferPart) -> dict[str, object]:
    return {
        "name": part.name,
        "acceptance": [
            {"num_steps": steps, "acceptance_length": _rounded(length)} for steps, length in part.lengths
        ],
        "levels": [
            {
                "concurrency": one.concurrency,
                "from": one.current.num_steps,
                "to": one.best.num_steps,
                "topk": one.best.topk,
                "gain": _rounded(one.gain),
                "gain_ci": [_rounded(v) for v in one.gain_ci],
                "verdict": one.verdict,
                "why": one.why,
            }
            for one in part.verdicts
        ],
        "warnings": list(part.warnings),
    }


def _rounded(value: float) -> float:
    """Six significant digits: more would claim what is not known."""
    return float(f"{value:.6g}")
