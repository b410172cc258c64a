"""The study store in one SQLite file: appends facts, reads them back. Nothing is updated in place."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from spectune.clock import Clock
from spectune.domain.study import Study, StudyHistory
from spectune.errors import StoreError
from spectune.storage import rows
from spectune.storage.codec import from_json, to_json
from spectune.storage.connection import mapped, open_for_reading, open_for_writing
from spectune.storage.masking import mask_study
from spectune.storage.sqlite_writer import SqliteStudyWriter
from spectune.storage.store import StudySummary
from spectune.storage.study_lock import is_locked, study_lock


def default_store_path(environ: Mapping[str, str]) -> Path:
    """The store in the user's data folder.

    >>> str(default_store_path({"HOME": "/home/me"}))
    '/home/me/.local/share/spectune/studies.db'
    """
    data = environ.get("XDG_DATA_HOME", "")
    home = Path(environ["HOME"]) if "HOME" in environ else Path.home()
    folder = Path(data) if data.startswith("/") else home / ".local" / "share"
    return folder / "spectune" / "studies.db"


class SqliteStore:
    """Studies in one file."""

    def __init__(self, path: Path, clock: Clock, spectune_version: str) -> None:
        self.path = path
        self._clock = clock
        self._version = spectune_version

    def check_writable(self) -> None:
        """Opens or makes the file; raises StoreError when nothing could be kept in it."""
        open_for_writing(self.path).close()
        if not os.access(self.path, os.W_OK):
            raise StoreError(f"{self.path}: `the store must be writable`, it is not; give another --store.")

    def studies(self) -> tuple[StudySummary, ...]:
        """All studies, oldest first; none where there is no file yet."""
        with mapped(self.path):
            if not self.path.exists():
                return ()
        with mapped(self.path), closing(open_for_reading(self.path)) as connection:
            found = connection.execute("SELECT id, body FROM study ORDER BY created_unix_s, id").fetchall()
            return tuple(
                StudySummary(
                    study=from_json(Study, body),
                    num_trials=rows.count_outcomes(connection, study_id),
                    finished=rows.finish_reason(connection, study_id),
                    is_open=is_locked(self._lock_path(study_id)),
                )
                for study_id, body in found
            )

    def history(self, study_id: str) -> StudyHistory:
        """Everything known of a study; raises StoreError when there is none of that id."""
        with mapped(self.path), closing(open_for_reading(self.path)) as connection:
            connection.execute("BEGIN")  # one consistent view while another process writes
            return rows.read_history(connection, study_id, str(self.path))

    @contextmanager
    def writing(self, study: Study) -> Iterator[SqliteStudyWriter]:
        """A sitting on `study`; ends as interrupted unless the writer's `finish` was called."""
        with (
            study_lock(self._lock_path(study.id), study.id),
            mapped(self.path),
            closing(open_for_writing(self.path)) as connection,
        ):
            sitting_id = self._begin_sitting(connection, study)
            writer = SqliteStudyWriter(self.path, connection, study, sitting_id, self._clock)
            try:
                yield writer
            finally:
                writer.end_sitting()

    def _begin_sitting(self, connection: sqlite3.Connection, study: Study) -> int:
        masked = mask_study(study)
        stored = connection.execute("SELECT body FROM study WHERE id = ?", (study.id,)).fetchone()
        if stored is None:
            connection.execute(
                "INSERT INTO study (id, created_unix_s, body) VALUES (?, ?, ?)",
                (study.id, study.created_unix_s, to_json(masked)),
            )
        elif replace(from_json(Study, stored[0]), environment=study.environment) != masked:
            raise StoreError(
                f"study {study.id}: `a study must be continued with the question it began with`, "
                "command, space, workload or levels differ; begin a new study."
            )
        begun = connection.execute(
            "INSERT INTO sitting (study_id, started_unix_s, spectune_version) VALUES (?, ?, ?) RETURNING id",
            (study.id, self._clock.unix_s(), self._version),
        ).fetchone()
        return int(begun[0])

    def _lock_path(self, study_id: str) -> Path:
        return self.path.with_name(self.path.name + ".locks") / f"{study_id}.lock"
