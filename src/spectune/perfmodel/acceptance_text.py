"""Text of an acceptance file (JSON or CSV) → acceptance of new prompts. Pure: the text is handed in.

Three forms:
    a result of `spectune tune` (JSON)     counters of its longest chain, and the lengths of its other chains
    JSON object, list, or {"rows": [...]}  num_steps with acceptance_length, or with accepted_per_position
                                           (shares) and optionally verify_steps
    CSV                                    columns num_steps, acceptance_length

One run with a long draft is enough where it is counted by position: shorter drafts follow from it
(acceptance_model.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spectune.errors import ConfigError
from spectune.perfmodel.acceptance_model import PositionCounts, shorter_drafts
from spectune.perfmodel.evidence import AcceptanceRow, Setting
from spectune.perfmodel.input_text import (
    MAX_NUM_STEPS,
    MAX_VERIFY_STEPS,
    count_of,
    csv_lines,
    json_of,
    number_of,
)

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
    data = json_of(text, name)
    if isinstance(data, dict) and data.get("schema") == STUDY_SCHEMA:
        return _of_study(data, name)
    rows = data.get("rows", [data]) if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{name}: `an object, or a list of objects` must hold; see docs/predict.md.")
    return [(f"{name} row {index}", row) for index, row in enumerate(rows, 1)]


def _of_study(data: Record, name: str) -> list[tuple[str, Record]]:
    """Counters of each chain's first completed trial, summed over its levels."""
    found: dict[int, tuple[str, Record]] = {}
    for index, trial in enumerate(_objects(data.get("trials"), f"{name} trials"), 1):
        place = f"{name} trial {trial.get('id', index)!s:.20}"
        config = trial.get("effective") or {}
        if not isinstance(config, dict):
            raise ConfigError(f"{place}: `effective is an object` must hold, got {config!r:.40}.")
        if trial.get("outcome") != "completed" or config.get("topk") != 1 or not config.get("num_steps"):
            continue
        steps = _steps(config["num_steps"], place)
        record = _summed(_objects(trial.get("levels"), f"{place} levels"), steps, place)
        if record is not None:
            found.setdefault(steps, (place, record))
    return list(found.values())


def _objects(given: object, place: str) -> list[Record]:
    rows = [] if given is None else given
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{place}: `a list of objects` must hold, got {given!r:.40}; save the study again.")
    return rows


def _summed(levels: Sequence[Record], num_steps: int, place: str) -> Record | None:
    verified, accepted = 0, 0
    positions = [0.0] * num_steps
    for level in levels:
        steps = _counter(level, "verify_steps", place)
        if not steps or level.get("accepted_tokens") is None:
            continue
        verified, accepted = verified + steps, accepted + _counter(level, "accepted_tokens", place)
        shares = level.get("accepted_per_position")
        if isinstance(shares, list) and len(shares) == num_steps:
            found = _shares(level, place, num_steps)
            positions = [sum_ + steps * share for sum_, share in zip(positions, found, strict=True)]
    if not verified:
        return None
    record: dict[str, object] = {
        "num_steps": num_steps,
        "acceptance_length": 1.0 + accepted / verified,
        "verify_steps": verified,
    }
    if any(positions):
        record["accepted_per_position"] = [value / verified for value in positions]
    return record


def _counter(level: Record, column: str, place: str) -> int:
    raw = level.get(column)
    return 0 if raw is None else count_of(raw, column, place, lowest=0, highest=MAX_VERIFY_STEPS)


def _csv(text: str, name: str) -> list[tuple[str, Record]]:
    lines = list(csv_lines(text, name))
    if len(lines) < 2 or not {"num_steps", "acceptance_length"} <= set(lines[0][1]):
        raise ConfigError(f"{name}: columns `num_steps` and `acceptance_length` must be there.")
    header = lines[0][1]
    return [
        (f"{name} line {line}", dict(zip(header, values, strict=False)))  # columns beyond are not read
        for line, values in lines[1:]
    ]


def _steps(raw: object, place: str) -> int:
    return count_of(raw, "num_steps", place, lowest=1, highest=MAX_NUM_STEPS)


def _run(record: Record, place: str) -> Run:
    if record.get("num_steps") in (None, ""):
        raise ConfigError(f"{place}: `num_steps` must be given.")
    steps = _steps(record["num_steps"], place)
    verified = _number(record, "verify_steps", place, default=ASSUMED_STEPS)
    if not 1 <= verified <= MAX_VERIFY_STEPS:
        rule = f"verify_steps >= 1` and `verify_steps <= {MAX_VERIFY_STEPS}"
        raise ConfigError(f"{place}: `{rule}` must hold, got {verified:g}.")
    shares = _shares(record, place, steps)
    default = 1.0 + sum(shares) if shares else None
    length = _number(record, "acceptance_length", place, default=default)
    if not 1.0 <= length <= steps + 1:
        raise ConfigError(
            f"{place}: `1 <= acceptance_length <= num_steps + 1` must hold, got {length:g} at {steps} steps."
        )
    counts = None
    if shares:
        accepted = tuple(round(share * verified) for share in shares)
        counts = PositionCounts(verify_steps=int(verified), accepted=accepted)
    return Run(num_steps=steps, acceptance_length=length, counts=counts, verify_steps=int(verified))


def _shares(record: Record, place: str, num_steps: int) -> tuple[float, ...]:
    given = record.get("accepted_per_position")
    if given is None:
        return ()
    values = given if isinstance(given, list) else []
    shares = tuple(
        float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= 1
    )
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
    return number_of(raw, column, place)
