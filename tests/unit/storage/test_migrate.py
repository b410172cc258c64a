import sqlite3
from contextlib import closing

import pytest

from spectune.errors import SchemaTooNew, StoreError
from spectune.storage.migrate import check_version, migrate, newest_version


def test_an_empty_database_gets_the_newest_schema() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        assert check_version(connection, "x") == 0
        migrate(connection, "x")
        assert check_version(connection, "x") == newest_version()
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"study", "sitting", "launch", "level", "request", "outcome"} <= tables


def test_migrating_again_changes_nothing() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "x")
        connection.execute("INSERT INTO study VALUES ('a', 0.0, '{}')")
        migrate(connection, "x")
        assert connection.execute("SELECT count(*) FROM study").fetchone() == (1,)


def test_foreign_and_newer_databases_are_told_apart() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE other (x)")
        with pytest.raises(StoreError, match="another program"):
            migrate(connection, "x")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "x")
        connection.execute(f"PRAGMA user_version = {newest_version() + 1}")
        with pytest.raises(SchemaTooNew):
            migrate(connection, "x")
