"""Writes a store as SQL text: how the dumps of past schemas in tests/stores/ are made.

python -m spectune.testing.store_dump FILE.db > tests/stores/schema-1.sql
"""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path


def dump_store(path: Path) -> Iterator[str]:
    """SQL statements that make the same database, version numbers included."""
    with closing(sqlite3.connect(path)) as connection:
        for pragma in ("application_id", "user_version"):
            value = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            yield f"PRAGMA {pragma} = {value};"
        yield from connection.iterdump()


if __name__ == "__main__":
    sys.stdout.writelines(line + "\n" for line in dump_store(Path(sys.argv[1])))
