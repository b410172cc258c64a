"""Text of a table of measurements (CSV or JSON) → evidence. Pure: the text is handed in.

Columns: num_steps, concurrency, and output_tps or request_tps; optional acceptance_length,
max_running_requests, max_total_num_tokens, topk, num_draft_tokens, workload,
and metric ("output_tps" or "request_tps"), which
says row by row what the speed is; with it the speed's column may also be called value.
JSON: a list of objects, or an object with the list under "rows" and, optionally, the model's shape under
"pools" (pool_capacity.facts_of), from which one read-back gives every capacity.
request_tps × concurrency = output_tps: in a closed loop every client waits for one request.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spectune.errors import ConfigError
from spectune.perfmodel.capacity_beliefs import believed_curves
from spectune.perfmodel.evidence import AcceptanceRow, CapacityCurve, Cell, Evidence, Setting, SpeedRow
from spectune.perfmodel.input_text import (
    MAX_NUM_STEPS,
    MAX_REQUESTS,
    MAX_TOKENS,
    MAX_TOPK,
    count_of,
    csv_lines,
    json_of,
    number_of,
)
from spectune.perfmodel.pool_capacity import PoolFacts, facts_of, pool_curves

AGREEMENT = 0.10  # repeats of a cell may differ by this share; launches on idle GPUs differ by up to 6 %
MIN_ROWS = 3
_SPEEDS = ("output_tps", "request_tps", "value")
_COLUMNS = (
    "num_steps", "topk", "num_draft_tokens", "concurrency", "workload", "metric", *_SPEEDS,
    "acceptance_length", "max_running_requests", "max_total_num_tokens",
)  # fmt: skip
SLOWEST_TPS, FASTEST_TPS = 1e-6, 1e12  # tokens per second beyond which a unit must be wrong
_HIGHEST = {
    "num_steps": MAX_NUM_STEPS,
    "topk": MAX_TOPK,
    "num_draft_tokens": 1 + MAX_NUM_STEPS * MAX_TOPK,
    "concurrency": MAX_REQUESTS,
    "max_running_requests": MAX_REQUESTS,
    "max_total_num_tokens": MAX_TOKENS,
}
_METRICS = {
    "output_tps": "output_tps",
    "aggregate": "output_tps",
    "request_tps": "request_tps",
    "per_request": "request_tps",
}

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row, checked; `place` names it in messages.

    Attributes:
        place: file and line or index.
        cell: where it was measured.
        output_tps: total tokens per second.
        acceptance_length: tokens per verify step, or None.
        max_running_requests: capacity read back, or None.
        max_total_num_tokens: tokens the engine said it has room for, or None.
    """

    place: str
    cell: Cell
    output_tps: float
    acceptance_length: float | None
    max_running_requests: int | None
    max_total_num_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as read.

    Attributes:
        rows: in the order of the text.
        ignored: columns nothing is read from.
        pools: the model's shape, or None.
    """

    rows: tuple[TableRow, ...]
    ignored: tuple[str, ...]
    pools: PoolFacts | None = None

    @property
    def requests_read(self) -> dict[int, int]:
        """Running requests by draft tokens, as read back."""
        return _readbacks(self.rows)

    @property
    def tokens_read(self) -> dict[int, int]:
        """Pool tokens by draft tokens, as read back; the lowest of several."""
        found: dict[int, int] = {}
        for row in self.rows:
            if row.max_total_num_tokens is not None:
                at = row.cell.setting.num_draft_tokens
                found[at] = min(row.max_total_num_tokens, found.get(at, row.max_total_num_tokens))
        return found


def parse_table(text: str, name: str) -> Table:
    """The table in a text; raises ConfigError with the place of what is wrong."""
    is_json = text.lstrip()[:1] in ("{", "[")
    records = _json_records(text, name) if is_json else _csv_records(text, name)
    _check_columns(records, name)
    rows = tuple(_row(record, place) for place, record in records)
    _check_repeats(rows)
    _check_enough(rows, name)
    columns = {str(column) for _, record in records for column in record}
    return Table(
        rows=rows,
        ignored=tuple(sorted(columns - set(_COLUMNS))),
        pools=_pools(text, name) if is_json else None,
    )


def evidence_of(table: Table, num_draft_tokens: Sequence[int]) -> Evidence:
    """What the rows say, with capacity believed at `num_draft_tokens` as well; rows in any order."""
    rows = table.rows
    counts: dict[Cell, int] = {}
    speeds = []
    for row in sorted(rows, key=lambda r: (r.cell, r.output_tps)):
        counts[row.cell] = counts.get(row.cell, -1) + 1
        speeds.append(SpeedRow(cell=row.cell, output_tps=row.output_tps, launch=counts[row.cell]))
    return Evidence(
        speeds=tuple(speeds),
        acceptance=_acceptance(rows),
        capacity=_capacity(table, num_draft_tokens),
    )


def _capacity(table: Table, num_draft_tokens: Sequence[int]) -> tuple[CapacityCurve, ...]:
    """From the model's shape where it is given, else from the forms of the laws."""
    requests = table.requests_read
    if not requests:
        return ()
    wanted = sorted({*num_draft_tokens, *(r.cell.setting.num_draft_tokens for r in table.rows)})
    if table.pools is not None:
        return pool_curves(table.pools, requests, table.tokens_read, wanted)
    return believed_curves(requests, wanted)


def _pools(text: str, name: str) -> PoolFacts | None:
    data = json_of(text, name)
    record = data.get("pools") if isinstance(data, dict) else None
    if record is None:
        return None
    if not isinstance(record, dict):
        raise ConfigError(f"{name} pools: `an object` must hold; see docs/predict.md.")
    return facts_of(record, f"{name} pools")


def _json_records(text: str, name: str) -> list[tuple[str, Record]]:
    data = json_of(text, name)
    rows = data.get("rows") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(
            f'{name}: `a list of objects, or {{"rows": [...]}}` must hold; see docs/predict.md.'
        )
    return [(f"{name} row {index}", row) for index, row in enumerate(rows, 1)]


def _csv_records(text: str, name: str) -> list[tuple[str, Record]]:
    header: list[str] = []
    records: list[tuple[str, Record]] = []
    for line, values in csv_lines(text, name):
        place = f"{name} line {line}"
        if not header:
            header = values
            continue
        if len(values) != len(header):
            raise ConfigError(
                f"{place}: `as many values as columns` must hold, got {len(values)} for {len(header)} "
                "columns."
            )
        records.append((place, {k: v for k, v in zip(header, values, strict=True) if v}))
    return records


def _check_columns(records: Sequence[tuple[str, Record]], name: str) -> None:
    if not records:
        raise ConfigError(f"{name}: `at least one row` must hold, got none.")
    columns = {column for _, record in records for column in record}
    missing = [column for column in ("num_steps", "concurrency") if column not in columns]
    if not columns & {"output_tps", "request_tps"} and not {"value", "metric"} <= columns:
        missing.append("output_tps or request_tps")
    if missing:
        found = ", ".join(sorted(map(str, columns))) or "none"
        raise ConfigError(f"{name}: column `{'`, `'.join(missing)}` is missing; found {found:.200}.")


def _row(record: Record, place: str) -> TableRow:
    steps = _count(record, "num_steps", place, minimum=0)
    topk = max(1, _count(record, "topk", place, minimum=0, default=1))
    tokens = _count(record, "num_draft_tokens", place, minimum=0, default=_draft_tokens(steps, topk))
    setting = Setting(
        num_steps=steps,
        topk=topk if steps else 1,
        num_draft_tokens=tokens if steps and topk > 1 else steps + 1,
    )
    concurrency = _count(record, "concurrency", place, minimum=1)
    workload = record.get("workload")
    cell = Cell(setting=setting, concurrency=concurrency, workload="" if workload is None else str(workload))
    running = record.get("max_running_requests")
    return TableRow(
        place=place,
        cell=cell,
        output_tps=_output_tps(record, place, concurrency),
        acceptance_length=_acceptance_length(record, place, setting),
        max_running_requests=None
        if running is None
        else _count(record, "max_running_requests", place, minimum=1),
        max_total_num_tokens=None
        if record.get("max_total_num_tokens") is None
        else _count(record, "max_total_num_tokens", place, minimum=1),
    )


def _draft_tokens(steps: int, topk: int) -> int:
    return steps + 1 if topk == 1 else 1 + steps * topk


def _output_tps(record: Record, place: str, concurrency: int) -> float:
    given = [column for column in _SPEEDS if record.get(column) is not None]
    metric = record.get("metric")
    if not given or (given == ["value"] and metric is None):
        raise ConfigError(f"{place}: `output_tps or request_tps` must be given.")
    kind = given[0] if metric is None else _METRICS.get(str(metric))
    if kind is None:
        raise ConfigError(
            f'{place}: `metric is "output_tps" or "request_tps"` must hold, got {metric!r:.40}.'
        )
    column = kind if kind in given else given[0]
    value = number_of(record[column], column, place)
    if not value > 0:
        raise ConfigError(
            f"{place}: `{column} > 0` must hold, got {value:g}; leave out cells that could not be measured."
        )
    if not SLOWEST_TPS <= value <= FASTEST_TPS:
        raise ConfigError(
            f"{place}: `{SLOWEST_TPS:g} <= {column} <= {FASTEST_TPS:g}` must hold, got {value:g}; "
            "check the unit."
        )
    return value * concurrency if kind == "request_tps" else value


def _acceptance_length(record: Record, place: str, setting: Setting) -> float | None:
    if record.get("acceptance_length") is None or setting.is_off:
        return None
    value = number_of(record["acceptance_length"], "acceptance_length", place)
    if not 1.0 <= value <= setting.num_steps + 1:
        raise ConfigError(
            f"{place}: `1 <= acceptance_length <= num_steps + 1` must hold, got {value:g} at "
            f"{setting.num_steps} "
            "steps; count the bonus token, and tokens per verify step of one sequence."
        )
    return value


def _count(record: Record, column: str, place: str, *, minimum: int, default: int | None = None) -> int:
    if record.get(column) is None:
        if default is not None:
            return default
        raise ConfigError(f"{place}: `{column}` must be given.")
    return count_of(record[column], column, place, lowest=minimum, highest=_HIGHEST[column])


def _check_repeats(rows: Sequence[TableRow]) -> None:
    seen: dict[Cell, TableRow] = {}
    for row in rows:
        first = seen.setdefault(row.cell, row)
        if abs(math.log(row.output_tps / first.output_tps)) > AGREEMENT:
            raise ConfigError(
                f"{row.place}: `repeats of a cell agree within {AGREEMENT:.0%}` must hold, got "
                f"{row.output_tps:g} tok/s, but {first.output_tps:g} in {first.place} (num_steps "
                f"{row.cell.setting.label}, concurrency {row.cell.concurrency}); measure it again, or tell "
                "the rows "
                "apart by a `workload` column."
            )


def _check_enough(rows: Sequence[TableRow], name: str) -> None:
    steps = sorted({row.cell.setting.num_steps for row in rows})
    if len(steps) < 2:
        other = 4 if steps[0] <= 1 else 1
        raise ConfigError(
            f"{name}: `at least two num_steps` must hold, got {steps[0]} only; measure num_steps {other} at "
            "the "
            "same concurrency."
        )
    if len({row.cell for row in rows}) < MIN_ROWS:
        levels = {row.cell.concurrency for row in rows}
        raise ConfigError(
            f"{name}: `at least {MIN_ROWS} different cells` must hold, got {len({r.cell for r in rows})}; "
            "measure "
            f"num_steps {steps[0]} and {steps[-1]} at a second concurrency, e.g. {max(levels) * 8}."
        )


def _readbacks(rows: Sequence[TableRow]) -> dict[int, int]:
    """Capacity by draft tokens; the lowest of several, and never growing."""
    found: dict[int, tuple[int, str]] = {}
    for row in rows:
        if row.max_running_requests is None:
            continue
        tokens = row.cell.setting.num_draft_tokens
        value, place = found.get(tokens, (row.max_running_requests, row.place))
        if value != row.max_running_requests:
            raise ConfigError(
                f"{row.place}: `max_running_requests is the same for one setting` must hold, got "
                f"{row.max_running_requests}, but {value} in {place}."
            )
        found[tokens] = (value, place)
    ordered = sorted(found.items())
    for (_, (more, _)), (_, (fewer, place)) in pairwise(ordered):
        if fewer > more:
            raise ConfigError(
                f"{place}: `max_running_requests never grows with draft tokens` must hold, got {fewer} "
                f"after {more}; "
                "were other flags changed between the launches?"
            )
    return {tokens: value for tokens, (value, _) in found.items()}


def _acceptance(rows: Sequence[TableRow]) -> tuple[AcceptanceRow, ...]:
    """Mean acceptance length per setting and text; it does not depend on concurrency."""
    values: dict[tuple[Setting, str], list[float]] = {}
    for row in rows:
        if row.acceptance_length is not None:
            values.setdefault((row.cell.setting, row.cell.workload), []).append(row.acceptance_length)
    return tuple(
        AcceptanceRow(setting=s, workload=w, acceptance_length=math.fsum(v) / len(v))
        for (s, w), v in sorted(values.items())
    )
