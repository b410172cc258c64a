import os
from pathlib import Path

import pytest

from spectune.errors import StoreError
from spectune.storage.study_lock import is_locked, study_lock


def test_the_lock_is_held_inside_and_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "study.lock"
    assert not is_locked(path)
    with study_lock(path, "study"):
        assert is_locked(path)
        with (
            pytest.raises(StoreError, match="study study: `one process at a time"),
            study_lock(path, "study"),
        ):
            pass
        assert is_locked(path)
    assert not path.exists()


def test_a_lock_file_left_by_a_killed_process_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "study.lock"
    path.touch()
    assert not is_locked(path)
    with study_lock(path, "study"):
        pass


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "study.lock"
    with study_lock(path, "study"):
        links = {link: int(link.name) for link in Path("/proc/self/fd").iterdir() if link.exists()}
        (descriptor,) = [number for link, number in links.items() if link.readlink() == path]
        assert not os.get_inheritable(descriptor)


def test_an_exception_inside_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "study.lock"
    with pytest.raises(KeyError), study_lock(path, "study"):
        raise KeyError
    assert not path.exists()
