from pathlib import Path

import pytest

from spectune.cli.stored_study import NEWEST, study_named
from spectune.errors import ConfigError
from spectune.storage.sqlite_store import SqliteStore
from spectune.testing.recording import FakeClock
from spectune.testing.study_values import make_study


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "studies.db", FakeClock(), "0.1.0")


def test_a_name_or_the_newest_is_found(store: SqliteStore) -> None:
    study = make_study()
    with store.writing(study):
        pass
    assert study_named(store, study.id, "spectune show") == study.id
    assert study_named(store, NEWEST, "spectune show") == study.id


def test_what_is_not_there_is_the_users_mistake(store: SqliteStore) -> None:
    with pytest.raises(ConfigError, match="a study must be in the store"):
        study_named(store, NEWEST, "spectune show")
    with store.writing(make_study()):
        pass
    with pytest.raises(ConfigError, match=r"spectune apply nope: .* there is none") as caught:
        study_named(store, "nope", "spectune apply")
    assert caught.value.exit_status == 2
    with pytest.raises(ConfigError) as caught:
        study_named(store, "x" * 5000, "spectune show")
    assert len(str(caught.value)) < 400
