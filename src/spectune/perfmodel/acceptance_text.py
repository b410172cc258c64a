"""Text of an acceptance file (JSON or CSV) → acceptance of new prompts. Pure: the text is handed in.

Three forms:
    a result of `spectune tune` (JSON)     counters of its longest chain, and the lengths of its other chains
    JSON object, list, or {"rows": [...]}  num_steps with acceptance_length, or with accepted_per_position
                                           (shares) and optionally verify_steps
    CSV                                    columns num_steps, acceptance_length

One run with a long draft is enough where it is counted by position: shorter drafts follow from it
(acceptance_model.py).
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spectune.errors import ConfigError
from spectune.perfmodel.acceptance_model import PositionCounts, shorter_drafts
from spectune.perfmodel.evidence import AcceptanceRow, Setting

STUDY_SCHEMA = "spectune.study/1"
ASSUMED_STEPS = 1000  # verify steps where a file with shares does not say how many they were
Record = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the new prompts.

    Attributes:
        num_steps: draft steps it ran with.
        acceptance_length: tokens per verify step, bonus included.
        counts: what was accepted by position; None where only the length is known.
        verify_steps: how many steps the length is a mean of.
    """

    num_steps: int
    acceptance_length: float
    counts: PositionCounts | None
    verify_steps: int


def parse_acceptance(text: str, name: str) -> tuple[Run, ...]:
    """Runs in a file's text, ascending in num_steps; raises ConfigError with what is wrong where."""
    records = _json(text, name) if text.lstrip()[:1] in ("{", "[") else _csv(text, name)
    runs = [_run(record, place) for place, record in records]
    by_steps: dict[int, Run] = {}
    for run in runs:
        if run.num_steps in by_steps:
            raise ConfigError(f"{name}: `each num_steps once` must hold, got {run.num_steps} twice.")
        by_steps[run.num_steps] = run
    if not by_steps:
        raise ConfigError(
            f"{name}: `acceptance of at least one chain` must hold, got none; run the new prompts with a "
            "long draft (docs/predict.md)."
        )
    return tuple(by_steps[steps] for steps in sorted(by_steps))


def acceptance_rows(runs: Sequence[Run], num_steps: Sequence[int]) -> tuple[AcceptanceRow, ...]:
    """Acceptance of every run, and of the shorter drafts among `num_steps` where the longest was counted."""
    rows = {
        run.num_steps: AcceptanceRow(
            setting=Setting.chain(run.num_steps),
            workload="",
            acceptance_length=run.acceptance_length,
            log_sd=math.hypot(0.005, 0.5 / math.sqrt(run.verify_steps)),
        )
        for run in runs
    }
    longest = max((run for run in runs if run.counts), key=lambda run: run.num_steps, default=None)
    if longest is not None and longest.counts is not None:
        missing = [steps for steps in num_steps if steps not in rows]
        for row in shorter_drafts(longest.counts, workload="", num_steps=missing):
            rows[row.setting.num_steps] = row
    return tuple(rows[steps] for steps in sorted(rows))


def _json(text: str, name: str) -> list[tuple[str, Record]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as exc:
        raise ConfigError(f"{name} line {exc.lineno}: `valid JSON` must hold: {exc.msg}.") from exc
    if isinstance(data, dict) and data.get("schema") == STUDY_SCHEMA:
        return _of_study(data, name)
    rows = data.get("rows", [data]) if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{name}: `an object, or a list of objects` must hold; see docs/predict.md.")
    return [(f"{name} row {index}", row) for index, row in enumerate(rows, 1)]


def _of_study(data: Record, name: str) -> list[tuple[str, Record]]:
    """Counters of each chain's first completed trial, summed over its levels."""
    found: dict[int, tuple[str, Record]] = {}
    trials = data.get("trials")
    for trial in trials if isinstance(trials, list) else ():
        config = trial.get("effective") or {}
        if trial.get("outcome") != "completed" or config.get("topk") != 1 or not config.get("num_steps"):
            continue
        steps = int(config["num_steps"])
        record = _summed(trial.get("levels") or (), steps)
        if record is not None:
            found.setdefault(steps, (f"{name} trial {trial.get('id')}", record))
    return list(found.values())


def _summed(levels: Sequence[Record], num_steps: int) -> Record | None:
    verified, accepted = 0.0, 0.0
    positions = [0.0] * num_steps
    for level in levels:
        steps, tokens = level.get("verify_steps"), level.get("accepted_tokens")
        shares = level.get("accepted_per_position")
        if not isinstance(steps, int) or not isinstance(tokens, int) or steps < 1:
            continue
        verified, accepted = verified + steps, accepted + tokens
        if isinstance(shares, list) and len(shares) == num_steps:
            positions = [sum_ + steps * float(share) for sum_, share in zip(positions, shares, strict=True)]
    if not verified:
        return None
    record: dict[str, object] = {
        "num_steps": num_steps,
        "acceptance_length": 1.0 + accepted / verified,
        "verify_steps": int(verified),
    }
    if any(positions):
        record["accepted_per_position"] = [value / verified for value in positions]
    return record


def _csv(text: str, name: str) -> list[tuple[str, Record]]:
    header = next((line for line in text.splitlines() if line.strip()), "")
    rows = list(csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=header.count)))
    if not rows or not {"num_steps", "acceptance_length"} <= {(k or "").strip() for k in rows[0]}:
        raise ConfigError(f"{name}: columns `num_steps` and `acceptance_length` must be there.")
    return [
        (f"{name} line {line}", {(k or "").strip(): v for k, v in row.items()})
        for line, row in enumerate(rows, 2)
    ]


def _run(record: Record, place: str) -> Run:
    steps = _number(record, "num_steps", place)
    if steps != int(steps) or steps < 1:
        raise ConfigError(f"{place}: `num_steps is a whole number >= 1` must hold, got {steps:g}.")
    verified = _number(record, "verify_steps", place, default=ASSUMED_STEPS)
    if verified < 1:
        raise ConfigError(f"{place}: `verify_steps >= 1` must hold, got {verified:g}.")
    shares = _shares(record, place, int(steps))
    default = 1.0 + sum(shares) if shares else None
    length = _number(record, "acceptance_length", place, default=default)
    if not 1.0 <= length <= steps + 1:
        raise ConfigError(
            f"{place}: `1 <= acceptance_length <= num_steps + 1` must hold, got {length:g} at {steps:g} "
            "steps."
        )
    counts = None
    if shares:
        accepted = tuple(round(share * verified) for share in shares)
        counts = PositionCounts(verify_steps=int(verified), accepted=accepted)
    return Run(num_steps=int(steps), acceptance_length=length, counts=counts, verify_steps=int(verified))


def _shares(record: Record, place: str, num_steps: int) -> tuple[float, ...]:
    given = record.get("accepted_per_position")
    if given is None:
        return ()
    values = given if isinstance(given, list) else []
    shares = tuple(float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    is_falling = all(a >= b - 1e-9 for a, b in pairwise((1.0, *shares, 0.0)))
    if len(shares) != num_steps or not is_falling:
        raise ConfigError(
            f"{place}: `accepted_per_position: one share per step, falling from at most 1` must hold, got "
            f"{given!r:.80}."
        )
    return shares


def _number(record: Record, column: str, place: str, *, default: float | None = None) -> float:
    raw = record.get(column)
    if raw is None or raw == "":
        if default is None:
            raise ConfigError(f"{place}: `{column}` must be given.")
        return default
    try:
        value = float(str(raw)) if isinstance(raw, str | int | float) else math.nan
    except ValueError:
        value = math.nan
    if isinstance(raw, bool) or not math.isfinite(value):
        raise ConfigError(f"{place}: `{column} is a number` must hold, got {raw!r:.80}.")
    return value
