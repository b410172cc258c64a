"""Brings a database to the newest schema, one numbered file after the other, each in one transaction."""

import sqlite3
from collections.abc import Iterator
from importlib import resources

from spectune.errors import SchemaTooNew, StoreError

APPLICATION_ID = 0x73706563  # "spec": tells our files from other SQLite databases


def newest_version() -> int:
    """Number of the last migration."""
    return max(_migrations())


def check_version(connection: sqlite3.Connection, name: str) -> int:
    """The schema version of an open database; 0 when it is empty.

    Raises:
        SchemaTooNew: a newer spectune wrote it.
        StoreError: it is a database of another program.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application_id = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and application_id != APPLICATION_ID:
        raise StoreError(
            f"{name}: `a store must be written by spectune`, it is a database of another program; "
            "give another --store."
        )
    if version > newest_version():
        raise SchemaTooNew(
            f"{name}: `schema version <= {newest_version()}` must hold, got {version}: a newer spectune "
            "wrote it; upgrade spectune or give another --store."
        )
    return version


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Applies the migrations the database lacks. Safe when several processes do it at once.

    Args:
        connection: in autocommit mode (`isolation_level=None`).
        name: path, for messages.
    """
    if check_version(connection, name) == newest_version():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check_version(connection, name)  # another process may have been faster
        for number, script in sorted(_migrations().items()):
            if number > version:
                for statement in _statements(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest_version()}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _migrations() -> dict[int, str]:
    """SQL text by number."""
    folder = resources.files("spectune.storage") / "migrations"
    return {
        int(entry.name.split("_")[0]): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


def _statements(script: str) -> Iterator[str]:
    """The script's statements; a trigger's inner semicolons do not end it."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
