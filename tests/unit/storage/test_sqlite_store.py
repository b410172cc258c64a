import contextlib
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.domain.command import Command
from spectune.domain.measurement import ToolCall
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import Infeasible, PlannedCell, TrialOutcome, Void
from spectune.domain.workload import Part
from spectune.errors import SchemaTooNew, StoreError
from spectune.storage.migrate import newest_version
from spectune.storage.sqlite_store import SqliteStore, default_store_path
from spectune.storage.store import StudyWriter
from spectune.testing.recording import FakeClock
from spectune.testing.study_values import (
    make_completed,
    make_effective,
    make_failed,
    make_level,
    make_plan,
    make_study,
    make_trial,
)

STORES = Path(__file__).parents[2] / "stores"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> SqliteStore:
    return SqliteStore(tmp_path / "folder" / "studies.db", clock, "0.1.0")


def append_completed(
    writer: StudyWriter, number: int, num_steps: int, speeds: dict[int, float]
) -> TrialOutcome:
    outcome = make_completed(number, num_steps, speeds)
    writer.add_launch(outcome.trial)
    writer.add_ready(outcome.trial, outcome.effective, outcome.launch_s)
    for level in outcome.levels:
        writer.add_level(outcome.trial, level)
    writer.add_outcome(outcome)
    return outcome


def test_everything_comes_back_as_it_was_appended(store: SqliteStore, clock: FakeClock) -> None:
    study, plans = make_study(), (make_plan(1), make_plan(8))
    void_trial, infeasible_trial = make_trial(3, 2), make_trial(4, 3)
    void = Void(
        trial=void_trial,
        reason="runs 1 step",
        effective=make_effective(void_trial.config),
        launch_s=2.0,
        levels=(make_level(1, 90, num_steps=2),),
    )
    infeasible = Infeasible(trial=infeasible_trial, reason="no")
    failed = replace(make_failed(2, 1), levels=(make_level(1, 140, num_steps=1),))
    with store.writing(study) as writer:
        writer.add_plans(plans)
        completed = append_completed(writer, 1, 0, {1: 100, 8: 500})
        for outcome in (failed, void):
            writer.add_launch(outcome.trial)
            writer.add_outcome(outcome)
        writer.add_outcome(infeasible)
        clock.advance(12.5)
        writer.finish("done")
    assert store.history(study.id) == StudyHistory(
        study=study,
        plans=plans,
        outcomes=(completed, failed, void, infeasible),
        finished="done",
        wall_s=12.5,
        launches=3,
    )


def test_both_measurements_of_a_disturbed_level_are_kept(store: SqliteStore) -> None:
    first, again = make_level(1, 50), make_level(1, 100, attempt=1)
    outcome = make_completed(1, 0, {})
    with store.writing(make_study(concurrency=(1,))) as writer:
        writer.add_launch(outcome.trial)
        writer.add_level(outcome.trial, first)
        writer.add_level(outcome.trial, again)
        writer.add_outcome(replace(outcome, levels=(again,)))
    assert store.history("study-1").outcomes == (replace(outcome, levels=(first, again)),)


def test_an_interrupted_trial_keeps_its_levels_over_sittings(store: SqliteStore, clock: FakeClock) -> None:
    study = make_study()
    outcome = make_completed(1, 0, {1: 100, 8: 500})
    with contextlib.suppress(KeyboardInterrupt), store.writing(study) as writer:
        writer.add_launch(outcome.trial)
        writer.add_ready(outcome.trial, outcome.effective, 1.5)
        clock.advance(3)
        writer.add_level(outcome.trial, outcome.levels[0])
        raise KeyboardInterrupt
    history = store.history(study.id)
    assert (history.outcomes, history.finished, history.wall_s, history.launches) == ((), "", 3, 1)
    (unfinished,) = history.unfinished
    assert (unfinished.trial, unfinished.launch_s, unfinished.levels) == (
        outcome.trial,
        1.5,
        outcome.levels[:1],
    )
    with store.writing(study) as writer:
        writer.add_launch(outcome.trial)
        clock.advance(4)
        writer.add_outcome(replace(outcome, levels=outcome.levels[1:]))
    history = store.history(study.id)
    assert (history.outcomes, history.unfinished) == ((outcome,), ())
    assert (history.wall_s, history.launches) == (7, 2)


def test_a_study_is_continued_only_with_its_own_question(store: SqliteStore) -> None:
    study = make_study()
    with store.writing(study):
        pass
    with (
        pytest.raises(StoreError, match="the question it began with"),
        store.writing(replace(study, concurrency=(1, 2))),
    ):
        pass


def test_two_writers_of_one_study_are_refused_and_two_studies_are_not(store: SqliteStore) -> None:
    with store.writing(make_study()), store.writing(make_study(study_id="other")) as other:
        append_completed(other, 1, 0, {1: 100, 8: 500})
        with pytest.raises(StoreError, match="one process at a time"), store.writing(make_study()):
            pass
    with store.writing(make_study()):
        pass


def test_the_list_says_which_studies_run_and_which_are_finished(store: SqliteStore) -> None:
    assert store.studies() == ()
    with store.writing(make_study(study_id="a")) as writer:
        append_completed(writer, 1, 0, {1: 100, 8: 500})
        writer.finish("done")
    with store.writing(make_study(study_id="b")):
        found = store.studies()
    assert [(s.study.id, s.num_trials, s.finished, s.is_open) for s in found] == [
        ("a", 1, "done", False),
        ("b", 0, "", True),
    ]


def test_an_unknown_study_is_named(store: SqliteStore) -> None:
    with store.writing(make_study()):
        pass
    with pytest.raises(StoreError, match="there is no 'nope'"):
        store.history("nope")


def test_reading_makes_no_file(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="no such file"):
        store.history("study-1")
    assert not store.path.exists()


def test_secrets_never_reach_the_file(store: SqliteStore) -> None:
    argv = ("spectune", "serve", "--api-key", "s3cret-one", "--token=s3cret-two")
    study = replace(make_study(argv=argv), command=Command(argv=argv, env=(("HF_TOKEN", "s3cret-three"),)))
    failed = replace(
        make_failed(1, 0), detail="bad key s3cret-one", log_tail="Bearer s3cret-four\nhf s3cret-three"
    )
    level = make_level(1, 100)
    broken = replace(
        level, records=(replace(level.records[0], error="401 for s3cret-two"), *level.records[1:])
    )
    with store.writing(study) as writer:
        writer.add_launch(failed.trial)
        writer.add_level(failed.trial, broken)
        writer.add_outcome(failed)
    kept = b"".join(path.read_bytes() for path in store.path.parent.rglob("*") if path.is_file())
    assert b"s3cret" not in kept
    assert b"bad key ****" in kept


def _append_until_killed(path: Path, ready: Callable[[], None]) -> None:
    store = SqliteStore(path, FakeClock(), "0.1.0")
    outcome = make_completed(1, 0, {1: 100, 8: 500})
    with store.writing(make_study()) as writer:
        writer.add_launch(outcome.trial)
        writer.add_ready(outcome.trial, outcome.effective, 1.5)
        writer.add_level(outcome.trial, outcome.levels[0])
        ready()
        for attempt in range(1, 1000):
            writer.add_level(outcome.trial, replace(outcome.levels[1], attempt=attempt))


def test_a_killed_process_loses_at_most_what_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    context = multiprocessing.get_context("spawn")
    measured = context.Event()
    child = context.Process(target=_append_until_killed, args=(path, measured.set))
    child.start()
    assert measured.wait(60)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    store = SqliteStore(path, FakeClock(), "0.1.0")
    (unfinished,) = store.history("study-1").unfinished
    levels = unfinished.levels
    assert levels[0] == make_completed(1, 0, {1: 100, 8: 500}).levels[0]
    assert all(len(level.records) == len(levels[0].records) for level in levels)  # whole levels or none
    with store.writing(make_study()):  # the lock died with the process
        pass


def test_facts_cannot_be_changed_or_deleted(store: SqliteStore) -> None:
    with store.writing(make_study()) as writer:
        append_completed(writer, 1, 0, {1: 100, 8: 500})
    connection = sqlite3.connect(store.path)
    for table in ("study", "launch", "level", "request", "outcome"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(f"DELETE FROM {table}")
        column = {"level": "wall_s", "request": "ended_at_s"}.get(table, "body")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(f"UPDATE {table} SET {column} = 0")
    connection.close()


def test_a_newer_schema_is_refused(store: SqliteStore) -> None:
    store.check_writable()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaTooNew, match="got 99"):
        store.studies()


def test_a_file_that_is_no_database_is_refused_and_left_alone(store: SqliteStore) -> None:
    store.path.parent.mkdir()
    text = b"my shopping list\n" * 1000
    store.path.write_bytes(text)
    for attempt in (store.studies, store.check_writable):
        with pytest.raises(StoreError, match="this file is not one"):
            attempt()
    assert store.path.read_bytes() == text


def test_a_database_of_another_program_is_refused_and_left_alone(store: SqliteStore) -> None:
    store.path.parent.mkdir()
    connection = sqlite3.connect(store.path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        store.check_writable()
    assert store.path.read_bytes() == before


def test_a_damaged_store_is_refused(store: SqliteStore) -> None:
    with store.writing(make_study()) as writer:
        append_completed(writer, 1, 0, {1: 100, 8: 500})
    kept = bytearray(store.path.read_bytes())
    kept[5000 : len(kept)] = b"\xff" * (len(kept) - 5000)
    store.path.write_bytes(kept)
    with pytest.raises(StoreError, match=r"studies\.db: "):
        store.history("study-1")


@pytest.mark.parametrize("name", ["a file/studies.db", "a file"])
def test_a_path_that_cannot_be_made_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").write_text("x" * 100)
    with pytest.raises(StoreError, match=r"--store|not one"):
        SqliteStore(tmp_path / name, FakeClock(), "0.1.0").check_writable()


def test_a_folder_nobody_may_write_into_is_refused() -> None:
    with pytest.raises(StoreError, match="--store"):
        SqliteStore(Path("/proc/studies.db"), FakeClock(), "0.1.0").check_writable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into every folder")
def test_a_read_only_folder_is_refused_for_writing_and_read_all_the_same(store: SqliteStore) -> None:
    with store.writing(make_study()) as writer:
        append_completed(writer, 1, 0, {1: 100, 8: 500})
    store.path.parent.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="writable"), store.writing(make_study(study_id="new")):
            pass
        assert len(store.history("study-1").outcomes) == 1
    finally:
        store.path.parent.chmod(0o700)


@pytest.mark.parametrize("dump", sorted(STORES.glob("schema-*.sql")), ids=lambda path: path.stem)
def test_stores_of_every_past_schema_are_opened(tmp_path: Path, dump: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    store = SqliteStore(path, FakeClock(), "0.1.0")
    history = store.history("study-1")
    assert [outcome.trial.config.num_steps for outcome in history.outcomes] == [0, 1, 2]
    assert history.finished == "done"
    study: Study = history.study
    level = make_level(1, 100.0, num_requests=6)
    if dump.stem in {"schema-1", "schema-2"}:  # calls of tools were not kept
        level = replace(level, records=tuple(replace(record, tool_calls=None) for record in level.records))
    else:
        called = replace(level.records[0], tool_calls=(ToolCall(name="add", arguments='{"a": 1}'),))
        level = replace(level, records=(called, *level.records[1:]))
    assert history.outcomes[0] == replace(make_completed(1, 0, {}), levels=(level,))
    with store.writing(replace(study, id="new")):
        pass


def test_there_is_a_dump_of_every_schema() -> None:
    dumps = {path.name for path in STORES.glob("schema-*.sql")}
    assert dumps == {f"schema-{number}.sql" for number in range(1, newest_version() + 1)}


def test_an_interrupted_trial_is_the_one_that_was_asked_for_first(store: SqliteStore) -> None:
    study, trial = make_study(), make_completed(1, 0, {}).trial
    with store.writing(study) as writer:
        writer.add_launch(trial)
        writer.add_level(trial, make_level(1, 100.0, num_requests=6))
        writer.add_launch(replace(trial, cells=(PlannedCell(concurrency=8),)))
    (unfinished,) = store.history(study.id).unfinished
    assert unfinished.trial == trial


def test_a_level_may_be_there_once_per_part(store: SqliteStore) -> None:
    study, trial = make_study(), make_completed(1, 0, {}).trial
    parts: tuple[Part, ...] = ("search", "fresh", "ramp")
    levels = tuple(replace(make_level(1, 100.0, num_requests=6), part=part) for part in parts)
    plans = tuple(replace(make_plan(1, 6), part=part) for part in parts[:2])
    with store.writing(study) as writer:
        writer.add_plans(plans)
        writer.add_launch(trial)
        for level in levels:
            writer.add_level(trial, level)
    history = store.history(study.id)
    assert history.plans == plans
    assert history.unfinished[0].levels == levels


def test_the_default_place_is_the_users_data_folder() -> None:
    assert default_store_path({"HOME": "/h", "XDG_DATA_HOME": "/data"}) == Path("/data/spectune/studies.db")
    assert default_store_path({"HOME": "/h", "XDG_DATA_HOME": "not/absolute"}) == Path(
        "/h/.local/share/spectune/studies.db"
    )


def test_a_damaged_schema_is_said_to_be_damaged(store: SqliteStore) -> None:
    with store.writing(make_study()):
        pass
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged = store.path.read_bytes().replace(b"launch_by_study", b"launch_by_stud\xa1")
    store.path.write_bytes(damaged.replace(b"CREATE INDEX", b"CREATE INDXX"))
    for look in (store.studies, lambda: store.history("study-1")):
        with pytest.raises(StoreError, match="damaged"):
            look()
