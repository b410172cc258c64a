"""SQL of the reading side, and the rows of a level: tables to domain values."""

import sqlite3
from dataclasses import replace
from typing import assert_never

from spectune.domain.measurement import LevelMeasurement, RequestRecord, SpecCounters
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    Failed,
    Infeasible,
    Trial,
    TrialId,
    TrialOutcome,
    UnfinishedTrial,
    Void,
)
from spectune.domain.workload import LoadPlan
from spectune.errors import StoreError
from spectune.storage.codec import (
    from_json,
    pack_calls,
    pack_floats,
    pack_ints,
    to_json,
    unpack_calls,
    unpack_floats,
    unpack_ints,
)

_ELAPSED_BY_SITTING = """
SELECT sum(longest) FROM (
  SELECT max(elapsed_s) AS longest FROM (
    SELECT sitting_id, elapsed_s FROM load_plan
    UNION ALL SELECT sitting_id, elapsed_s FROM launch
    UNION ALL SELECT launch.sitting_id, ready.elapsed_s FROM ready JOIN launch ON launch.id = ready.launch_id
    UNION ALL SELECT launch.sitting_id, level.elapsed_s FROM level JOIN launch ON launch.id = level.launch_id
    UNION ALL SELECT sitting_id, elapsed_s FROM outcome
    UNION ALL SELECT sitting_id, elapsed_s FROM sitting_end
  ) WHERE sitting_id IN (SELECT id FROM sitting WHERE study_id = ?)
  GROUP BY sitting_id
)
"""
_LEVELS_OF_TRIAL = """
SELECT level.id, concurrency, attempt, counters, foreign_cpu_share, wall_s, started_unix_s, part
FROM level JOIN launch ON launch.id = level.launch_id
WHERE launch.study_id = ? AND launch.trial_id = ? ORDER BY level.id
"""


def kind_of(outcome: TrialOutcome) -> str:
    """The outcome's word in the `kind` column."""
    match outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Infeasible():
            return "infeasible"
        case Void():
            return "void"
        case _:
            assert_never(outcome)


def read_history(connection: sqlite3.Connection, study_id: str, store_name: str) -> StudyHistory:
    """Everything stored of a study; raises StoreError when there is none of that id."""
    stored = connection.execute("SELECT body FROM study WHERE id = ?", (study_id,)).fetchone()
    if stored is None:
        raise StoreError(
            f"{store_name}: `the study must be in the store`, there is no {study_id!r}; "
            "`spectune show` lists what is there."
        )
    plans = connection.execute("SELECT body FROM load_plan WHERE study_id = ? ORDER BY id", (study_id,))
    launches = connection.execute("SELECT count(*) FROM launch WHERE study_id = ?", (study_id,)).fetchone()
    wall = connection.execute(_ELAPSED_BY_SITTING, (study_id,)).fetchone()
    return StudyHistory(
        study=from_json(Study, stored[0]),
        plans=tuple(from_json(LoadPlan, body) for (body,) in plans.fetchall()),
        outcomes=_read_outcomes(connection, study_id),
        finished=finish_reason(connection, study_id),
        wall_s=float(wall[0] or 0.0),
        launches=int(launches[0]),
        unfinished=_read_unfinished(connection, study_id),
    )


def finish_reason(connection: sqlite3.Connection, study_id: str) -> str:
    """Why the newest sitting's planner stopped, or ""."""
    found = connection.execute(
        "SELECT coalesce(sitting_end.finished, '') FROM sitting "
        "LEFT JOIN sitting_end ON sitting_end.sitting_id = sitting.id "
        "WHERE sitting.study_id = ? ORDER BY sitting.id DESC LIMIT 1",
        (study_id,),
    ).fetchone()
    return str(found[0]) if found else ""


def count_outcomes(connection: sqlite3.Connection, study_id: str) -> int:
    """Trials that ended."""
    found = connection.execute("SELECT count(*) FROM outcome WHERE study_id = ?", (study_id,)).fetchone()
    return int(found[0])


def has_level(
    connection: sqlite3.Connection, study_id: str, trial_id: TrialId, level: LevelMeasurement
) -> bool:
    """Whether this measurement of the trial was appended before."""
    found = connection.execute(
        "SELECT count(*) FROM level JOIN launch ON launch.id = level.launch_id WHERE launch.study_id = ? "
        "AND launch.trial_id = ? AND part = ? AND concurrency = ? AND attempt = ? "
        "AND level.started_unix_s = ?",
        (study_id, trial_id, level.part, level.concurrency, level.attempt, level.started_unix_s),
    ).fetchone()
    return bool(found[0])


def insert_level(
    connection: sqlite3.Connection, launch_id: int, elapsed_s: float, level: LevelMeasurement
) -> None:
    """Appends a level and its requests."""
    inserted = connection.execute(
        "INSERT INTO level (launch_id, elapsed_s, concurrency, attempt, counters, foreign_cpu_share, wall_s, "
        "started_unix_s, part) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            launch_id,
            elapsed_s,
            level.concurrency,
            level.attempt,
            None if level.counters is None else to_json(level.counters),
            level.foreign_cpu_share,
            level.wall_s,
            level.started_unix_s,
            level.part,
        ),
    ).fetchone()
    connection.executemany(
        "INSERT INTO request VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(inserted[0], position, *_record_row(record)) for position, record in enumerate(level.records)],
    )


def _record_row(record: RequestRecord) -> tuple[object, ...]:
    return (
        record.index,
        record.due_at_s,
        record.sent_at_s,
        pack_floats(record.chunk_times_s),
        pack_ints(record.chunk_tokens),
        record.ended_at_s,
        record.prompt_tokens,
        record.output_tokens,
        record.finish_reason,
        record.output_text,
        record.error,
        None if record.tool_calls is None else pack_calls(record.tool_calls),
    )


def _read_outcomes(connection: sqlite3.Connection, study_id: str) -> tuple[TrialOutcome, ...]:
    stored = connection.execute(
        "SELECT trial_id, kind, body FROM outcome WHERE study_id = ? ORDER BY trial_id", (study_id,)
    ).fetchall()
    return tuple(
        _outcome(kind, body, _read_levels(connection, study_id, trial_id)) for trial_id, kind, body in stored
    )


def _outcome(kind: str, body: str, levels: tuple[LevelMeasurement, ...]) -> TrialOutcome:
    match kind:
        case "completed":
            return replace(from_json(Completed, body), levels=levels)
        case "failed":
            return replace(from_json(Failed, body), levels=levels)
        case "void":
            return replace(from_json(Void, body), levels=levels)
        case "infeasible":
            return from_json(Infeasible, body)
        case _:
            raise StoreError(
                f"stored outcome: `kind` must be one we know, got {kind!r}; the store is damaged."
            )


def _read_unfinished(connection: sqlite3.Connection, study_id: str) -> tuple[UnfinishedTrial, ...]:
    stored = connection.execute(
        "SELECT launch.trial_id, launch.body, ready.body, ready.launch_s FROM launch "
        "LEFT JOIN ready ON ready.launch_id = launch.id WHERE launch.study_id = ? AND launch.trial_id NOT IN "
        "(SELECT trial_id FROM outcome WHERE study_id = ?) ORDER BY launch.id",
        (study_id, study_id),
    ).fetchall()
    newest = {trial_id: facts for trial_id, *facts in stored}
    first = {trial_id: trial for trial_id, trial, *_ in reversed(stored)}  # later: its missing cells
    return tuple(
        UnfinishedTrial(
            trial=from_json(Trial, first[trial_id]),
            effective=None if ready is None else from_json(EffectiveSettings, ready),
            launch_s=launch_s,
            levels=_read_levels(connection, study_id, trial_id),
        )
        for trial_id, (_, ready, launch_s) in newest.items()
    )


def _read_levels(
    connection: sqlite3.Connection, study_id: str, trial_id: int
) -> tuple[LevelMeasurement, ...]:
    stored = connection.execute(_LEVELS_OF_TRIAL, (study_id, trial_id)).fetchall()
    return tuple(
        LevelMeasurement(
            concurrency=concurrency,
            attempt=attempt,
            records=_read_records(connection, level_id),
            counters=None if counters is None else from_json(SpecCounters, counters),
            foreign_cpu_share=share,
            wall_s=wall_s,
            started_unix_s=started_unix_s,
            part=part,
        )
        for level_id, concurrency, attempt, counters, share, wall_s, started_unix_s, part in stored
    )


def _read_records(connection: sqlite3.Connection, level_id: int) -> tuple[RequestRecord, ...]:
    stored = connection.execute(
        "SELECT request_index, due_at_s, sent_at_s, chunk_times_s, chunk_tokens, ended_at_s, prompt_tokens, "
        "output_tokens, finish_reason, output_text, error, tool_calls FROM request WHERE level_id = ? "
        "ORDER BY position",
        (level_id,),
    )
    return tuple(
        RequestRecord(
            index=row[0],
            due_at_s=row[1],
            sent_at_s=row[2],
            chunk_times_s=unpack_floats(row[3]),
            chunk_tokens=unpack_ints(row[4]),
            ended_at_s=row[5],
            prompt_tokens=row[6],
            output_tokens=row[7],
            finish_reason=row[8],
            output_text=row[9],
            error=row[10],
            tool_calls=None if row[11] is None else unpack_calls(row[11]),
        )
        for row in stored.fetchall()
    )
