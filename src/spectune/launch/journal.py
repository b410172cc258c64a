"""The tuner's write-ahead journal: what to give back is on disk before anything is changed.

One file of JSON lines per unit and session, each line synced before the step it announces. The file is
locked while a tuner works with it; the kernel drops the lock when the tuner dies. A journal without its
last line, `closed`, is unfinished, and `spectune restore` finishes it. It never holds a secret.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from spectune.errors import ConfigError, LaunchError

Kind = Literal["tune", "apply"]
Keeper = Literal["systemd", "docker"]
_SUFFIX = ".journal"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """What must be known to give the service back.

    Attributes:
        id: name of the session, unique.
        kind: what is being done.
        study: the study it is done for.
        unit: full name.
        ssh: destination; "" for this machine.
        use_sudo: whether commands go through sudo.
        is_user: whether it is a unit of the user's own manager.
        folder: the state folder on the host.
        kept: folder on the host, outside /run, with the persistent drop-in there was before; "" for none.
        drop_in: the trial's drop-in.
        dependents: units to start again.
        orphan_timeout_s: silence after which the watchdog acts.
        token: of the lease.
        boot_id: of the host when it began.
        former: ActiveState before.
        digest: of ExecStart and drop-ins before, salted with the token.
        before: what the server ran before, as the engine's side wrote it down; "" when it did not run.
        engine: dialect that reads it.
        after_restore: command to run at the end; empty for none.
        keeper: what keeps the server; `unit` is then a container's name and `drop_in` the one it waits under.
    """

    id: str
    kind: Kind
    study: str
    unit: str
    ssh: str
    use_sudo: bool
    is_user: bool
    folder: str
    kept: str
    drop_in: str
    dependents: tuple[str, ...]
    orphan_timeout_s: float
    token: str
    boot_id: str
    former: str
    digest: str
    before: str
    engine: str
    after_restore: tuple[str, ...] = ()
    keeper: Keeper = "systemd"


class Journal:
    """An open, locked journal."""

    def __init__(self, path: Path, descriptor: int, header: JournalHeader, steps: tuple[str, ...]) -> None:
        """`steps` are those that were written before."""
        self.path, self.header, self._descriptor = path, header, descriptor
        self._steps = list(steps)

    @classmethod
    def begin(cls, folder: Path, header: JournalHeader) -> "Journal":
        """A new journal; raises LaunchError when it cannot be made durable."""
        path = folder / f"{header.id}{_SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal = cls(path, descriptor, header, ())
            journal._append(_header_line(header))
            parent = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(parent)
            os.close(parent)
        except OSError as error:
            raise LaunchError(
                f"journal {path}: `it can be written before anything is changed` must hold, got: "
                f"{error.strerror}; nothing was changed."
            ) from error
        return journal

    @classmethod
    def reopen(cls, path: Path) -> "Journal | None":
        """An unfinished journal, locked; None when it is finished.

        Raises:
            ConfigError: a tuner works with it, or it cannot be read.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(
                f"journal {path}: `it can be read` must hold, got: {error.strerror}."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ConfigError(
                f"journal {path}: `nobody works with it` must hold, a spectune does; stop that one, it gives "
                "the service back itself."
            ) from error
        found = _read(path)
        if found is None or found[1][-1:] == ("closed",):
            os.close(descriptor)
            return None
        os.lseek(descriptor, 0, os.SEEK_END)
        os.write(descriptor, b"\n")  # a torn last line ends here
        return cls(path, descriptor, found[0], found[1])

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the steps so far: `NAME?` announced, `NAME` done."""
        return tuple(self._steps)

    def announce(self, step: str) -> None:
        """The step is about to be taken."""
        self._note(f"{step}?")

    def done(self, step: str) -> None:
        """The step was taken."""
        self._note(step)

    def close(self, outcome: str) -> None:
        """The last line: the service is as it was, or as applied."""
        self._append({"step": "closed", "outcome": outcome})
        self._steps.append("closed")
        self.release()

    def release(self) -> None:
        """Lets the lock go; an unfinished journal stays for `spectune restore`."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _note(self, step: str) -> None:
        self._append({"step": step})
        self._steps.append(step)

    def _append(self, value: dict[str, object]) -> None:
        os.write(self._descriptor, (json.dumps(value) + "\n").encode())
        os.fsync(self._descriptor)


def header_text(header: JournalHeader) -> str:
    """The header as its host keeps it; holds no secret."""
    return json.dumps(_header_line(header)) + "\n"


def read_header_text(text: str, *, where: str) -> JournalHeader:
    """What `header_text` wrote; raises ConfigError."""
    found = _parsed(text.encode(), where)
    if found is None:
        raise ConfigError(f"{where}: `a journal's header` must be there, got {text[:80]!r}.")
    return found[0]


def unfinished(folder: Path) -> tuple[Path, ...]:
    """Journals without their last line, oldest first."""
    return tuple(path for path, _, steps in _all(folder) if steps[-1:] != ("closed",))


def last_header(folder: Path, study: str) -> JournalHeader | None:
    """Of the newest session that tuned this study."""
    found = [header for _, header, _ in _all(folder) if header.study == study and header.kind == "tune"]
    return found[-1] if found else None


def _all(folder: Path) -> Iterator[tuple[Path, JournalHeader, tuple[str, ...]]]:
    paths = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in paths:
        found = _read(path)
        if found is not None:
            yield path, *found


def read_header(path: Path) -> JournalHeader:
    """Whose journal it is; raises ConfigError."""
    found = _read(path)
    if found is None:
        raise ConfigError(f"journal {path}: `its first line is whole` must hold; nothing had been changed.")
    return found[0]


def _read(path: Path) -> tuple[JournalHeader, tuple[str, ...]] | None:
    """Header and steps; None when not even the first line is whole, so that nothing was changed yet."""
    return _parsed(path.read_bytes(), f"journal {path}")


def _header_line(header: JournalHeader) -> dict[str, object]:
    return {"version": _VERSION, **asdict(header)}


def _parsed(text: bytes, where: str) -> tuple[JournalHeader, tuple[str, ...]] | None:
    lines: list[dict[str, object]] = []
    for line in text.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue  # empty, or torn by a crash: what it announced was not begun
        if isinstance(value, dict):
            lines.append(value)
    if not lines or "unit" not in lines[0]:
        return None
    first = lines[0]
    values = {"keeper": "systemd"} | {
        field.name: first[field.name] for field in fields(JournalHeader) if field.name in first
    }
    values |= {field.name: None for field in fields(JournalHeader) if field.name not in values}
    if first.get("version") != _VERSION or None in values.values():
        raise ConfigError(f"{where}: `version {_VERSION}` must hold, got {first.get('version')!r}.")
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    header = JournalHeader(**{**values, **lists})  # type: ignore[arg-type]
    return header, tuple(str(line["step"]) for line in lines[1:] if "step" in line)
