"""One sitting's appends. Every call is one transaction: a kill loses at most the fact being written."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from spectune.clock import Clock
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.study import Study
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    Failed,
    Infeasible,
    Trial,
    TrialId,
    TrialOutcome,
    Void,
)
from spectune.domain.workload import LoadPlan
from spectune.storage import rows
from spectune.storage.codec import to_json
from spectune.storage.connection import mapped
from spectune.storage.masking import mask_level, mask_outcome, secrets_of


class SqliteStudyWriter:
    """Appends facts to one study."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, study: Study, sitting_id: int, clock: Clock
    ) -> None:
        self._path = path
        self._connection = connection
        self._study_id = study.id
        self._secrets = secrets_of(study.command)
        self._sitting_id = sitting_id
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._finished = ""

    def add_plans(self, plans: tuple[LoadPlan, ...]) -> None:
        """Appends the load plans of all levels."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO load_plan (study_id, sitting_id, elapsed_s, part, concurrency, body) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(*self._now(), plan.part, plan.concurrency, to_json(plan)) for plan in plans],
            )

    def add_launch(self, trial: Trial) -> None:
        """Appends the start of a server."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO launch (study_id, sitting_id, elapsed_s, trial_id, body) VALUES (?, ?, ?, ?, ?)",
                (self._study_id, self._sitting_id, self._elapsed_s(), trial.id, to_json(trial)),
            )

    def add_ready(self, trial: Trial, effective: EffectiveSettings, launch_s: float) -> None:
        """Appends what the launched server says it runs."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO ready (launch_id, elapsed_s, launch_s, body) VALUES (?, ?, ?, ?)",
                (self._launch_id(trial.id), self._elapsed_s(), launch_s, to_json(effective)),
            )

    def add_level(self, trial: Trial, level: LevelMeasurement) -> None:
        """Appends a measured level with all its requests."""
        with self._transaction() as connection:
            self._insert_level(connection, trial, level)

    def add_outcome(self, outcome: TrialOutcome) -> None:
        """Appends how a trial ended, and those of its levels that are not there yet."""
        masked = mask_outcome(outcome, self._secrets)
        with self._transaction() as connection:
            if not isinstance(outcome, Infeasible):
                for level in outcome.levels:
                    if not rows.has_level(connection, self._study_id, outcome.trial.id, level):
                        self._insert_level(connection, outcome.trial, level)
            connection.execute(
                "INSERT INTO outcome (study_id, sitting_id, elapsed_s, trial_id, kind, body) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (
                    self._study_id,
                    self._sitting_id,
                    self._elapsed_s(),
                    outcome.trial.id,
                    rows.kind_of(masked),
                    to_json(_without_levels(masked)),
                ),
            )

    def finish(self, reason: str) -> None:
        """Notes why the planner stopped; written when the sitting ends."""
        self._finished = reason

    def end_sitting(self) -> None:
        """Appends the end of the sitting."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO sitting_end (sitting_id, elapsed_s, finished) VALUES (?, ?, ?)",
                (self._sitting_id, self._elapsed_s(), self._finished),
            )

    def _insert_level(self, connection: sqlite3.Connection, trial: Trial, level: LevelMeasurement) -> None:
        launch_id = self._launch_id(trial.id)
        rows.insert_level(connection, launch_id, self._elapsed_s(), mask_level(level, self._secrets))

    def _launch_id(self, trial_id: TrialId) -> int:
        found = self._connection.execute(
            "SELECT max(id) FROM launch WHERE study_id = ? AND trial_id = ?", (self._study_id, trial_id)
        ).fetchone()
        assert found[0] is not None, "add_launch comes before the launch's other facts"
        return int(found[0])

    def _now(self) -> tuple[str, int, float]:
        return self._study_id, self._sitting_id, self._elapsed_s()

    def _elapsed_s(self) -> float:
        return self._clock.monotonic_s() - self._began_s

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with mapped(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _without_levels(outcome: TrialOutcome) -> TrialOutcome:
    match outcome:
        case Completed() | Failed() | Void():
            return replace(outcome, levels=())
        case Infeasible():
            return outcome
        case _:
            assert_never(outcome)
