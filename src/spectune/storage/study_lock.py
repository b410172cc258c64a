"""One process at a time works on a study: a lock the kernel drops when the process dies, however it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectune.errors import StoreError


@contextmanager
def study_lock(path: Path, study_id: str) -> Iterator[None]:
    """Holds the lock file at `path`; the file is removed afterwards.

    Raises:
        StoreError: another process holds it, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_locked(path)
    except BlockingIOError as exc:
        raise StoreError(
            f"study {study_id}: `one process at a time works on a study` must hold, another one does; "
            "wait for it or stop it."
        ) from exc
    except OSError as exc:
        raise StoreError(
            f"{path}: `the store's folder must be writable`, got {exc.strerror}; give another --store."
        ) from exc
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    """A descriptor holding the lock on the file that is at `path` now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the former holder removed the file between our open and our lock


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
