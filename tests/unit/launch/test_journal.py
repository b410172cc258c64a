from dataclasses import replace
from pathlib import Path

import pytest

from spectune.errors import ConfigError, LaunchError
from spectune.launch.journal import (
    Journal,
    JournalHeader,
    header_text,
    read_header,
    read_header_text,
    unfinished,
)

HEADER = JournalHeader(
    id="one", kind="tune", study="s", unit="llm.service", ssh="", use_sudo=False, is_user=False,
    folder="/run/spectune/llm", kept="", drop_in="/run/x.conf", dependents=("front.service",),
    orphan_timeout_s=60.0, token="t", boot_id="b", former="active", digest="d", before="{}",
    engine="embedded", after_restore=("echo", "a b"),
)  # fmt: skip


def test_what_was_begun_can_be_read_back(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, HEADER)
    journal.announce("lease")
    journal.done("lease")
    journal.announce("stop")
    journal.release()
    assert unfinished(tmp_path) == (tmp_path / "one.journal",)
    assert read_header(tmp_path / "one.journal") == HEADER
    again = Journal.reopen(tmp_path / "one.journal")
    assert again is not None
    assert (again.header, again.steps) == (HEADER, ("lease?", "lease", "stop?"))
    again.close("as before")
    assert unfinished(tmp_path) == ()
    assert Journal.reopen(tmp_path / "one.journal") is None


def test_it_is_on_disk_and_private_before_begin_returns(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    journal = Journal.begin(folder, HEADER)
    assert journal.path.stat().st_mode & 0o777 == 0o600
    assert read_header(journal.path) == HEADER
    journal.release()


def test_a_torn_last_line_is_a_step_that_was_not_begun(tmp_path: Path) -> None:
    Journal.begin(tmp_path, HEADER).release()
    path = tmp_path / "one.journal"
    with path.open("a") as torn:
        torn.write('{"step": "sto')
    again = Journal.reopen(path)
    assert again is not None
    assert again.steps == ()
    again.announce("undo")
    again.release()
    reread = Journal.reopen(path)
    assert reread is not None
    assert reread.steps == ("undo?",)
    reread.release()


def test_a_torn_first_line_means_that_nothing_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "one.journal"
    path.write_text('{"version": 1, "uni')
    assert unfinished(tmp_path) == ()
    assert Journal.reopen(path) is None


def test_a_journal_in_use_is_left_alone(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, HEADER)
    with pytest.raises(ConfigError, match="nobody works with it"):
        Journal.reopen(journal.path)
    journal.release()


def test_nothing_begins_without_a_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="nothing was changed"):
        Journal.begin(tmp_path / "file" / "x", HEADER)


def test_another_version_is_told(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, replace(HEADER, id="two"))
    journal.release()
    text = journal.path.read_text().replace('"version": 1', '"version": 2')
    journal.path.write_text(text)
    with pytest.raises(ConfigError, match="version 1"):
        read_header(journal.path)


def test_a_journal_from_before_there_were_containers_is_still_read(tmp_path: Path) -> None:
    Journal.begin(tmp_path, HEADER).release()
    path = tmp_path / "one.journal"
    old = path.read_text("utf-8").replace(', "keeper": "systemd"', "")
    assert "keeper" not in old
    path.write_text(old, "utf-8")
    assert read_header(path) == HEADER


def test_the_copy_beside_the_unit_is_the_header() -> None:
    container = replace(HEADER, keeper="docker", unit="llm-prod")
    for header in (HEADER, container):
        assert read_header_text(header_text(header), where="there") == header
    for text in ("", "{}", "not json", '{"version": 9, "unit": "x"}'):
        with pytest.raises(ConfigError, match="there"):
            read_header_text(text, where="there")
