"""Opens the database file and maps SQLite's exceptions to StoreError."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from spectune.errors import StoreError
from spectune.storage.migrate import check_version, migrate, newest_version

_BUSY_TIMEOUT_S = 20.0


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turns SQLite's and the file system's exceptions into StoreError with the file and a next step."""
    try:
        yield
    except sqlite3.Error as exc:
        raise StoreError(f"{path}: {_explain(exc)}") from exc
    except UnicodeDecodeError as exc:  # SQLite's own message about it quotes the bytes
        raise StoreError(
            f"{path}: `a store must be intact`, it is damaged; restore a copy or give another --store."
        ) from exc
    except OSError as exc:
        raise StoreError(
            f"{path}: `the store's folder must be there and writable`, got {exc.strerror}; "
            "give another --store."
        ) from exc


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection to the newest schema; file and folder are made where they are missing.

    Raises:
        StoreError: not ours, too new, damaged or not writable.
    """
    with mapped(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connect(path, "rwc")
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection to an existing store, also where its folder is read-only.

    Raises:
        StoreError: missing, not ours, too new or damaged.
    """
    with mapped(path):
        is_there = path.is_file()
    if not is_there:
        raise StoreError(
            f"{path}: `the store must exist`, there is no such file; give --store or run `spectune tune`."
        )
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return open_for_writing(path)
    with mapped(path):
        has_log = path.with_name(path.name + "-wal").exists()
        connection = _connect(path, "ro" if has_log else "ro&immutable=1")
        try:
            _check_current(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    check_version(connection, str(path))  # before anything is written into a foreign file
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    migrate(connection, str(path))


def _check_current(connection: sqlite3.Connection, path: Path) -> None:
    if check_version(connection, str(path)) < newest_version():
        raise StoreError(
            f"{path}: `an older schema is upgraded on opening`, the file is read-only; copy it elsewhere."
        )


def _explain(exc: sqlite3.Error) -> str:
    text = str(exc)
    if "not a database" in text:
        return "`a store must be an SQLite database`, this file is not one; give another --store."
    if "malformed" in text:
        return f"`a store must be intact`, it is damaged ({text}); restore a copy or give another --store."
    if "readonly" in text or "unable to open" in text:
        return f"`the store must be readable and its folder writable`, got: {text}; give another --store."
    if "locked" in text or "busy" in text:
        return f"`another process's write must end within {_BUSY_TIMEOUT_S:.0f} s`, got: {text}; try again."
    if "full" in text:
        return f"`the disk must have room`, got: {text}; free some space, then --resume."
    return f"`the store must be usable`, got: {text}."
