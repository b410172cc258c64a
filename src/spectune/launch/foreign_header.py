"""A journal's header that another machine tells: nothing in it is believed before it was checked. Pure.

Whoever can write on that machine wrote it. A field may become the name of a file or a word of a command here,
so that each must have its form, and what the service's own name decides must be what it decides.
"""

import re
import time
from dataclasses import dataclass

from spectune.errors import ConfigError
from spectune.launch.journal import JournalHeader, Keeper
from spectune.launch.unit_name import UnitName

_WORD = re.compile(r"[\w@-][\w.@-]*", re.ASCII)
_STAMP, _STAMP_LENGTH = "%Y%m%d-%H%M%S", 15
_LONGEST = 200
_WORDS = ("id", "study", "token", "boot_id", "former", "digest", "engine")
_KINDS = ("tune", "apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPlace:
    """What a service's own name decides.

    Attributes:
        keeper: what keeps it.
        unit: full name.
        is_user: whether it is a unit of the user's own manager.
        folder: the state folder on the host.
        drop_in: the trial's drop-in, or the name the container waits under.
        kept: folder of what `apply` replaced, "" where there can be none.
    """

    keeper: Keeper
    unit: str
    is_user: bool
    folder: str
    drop_in: str
    kept: str = ""


def check_foreign(header: JournalHeader, expected: ExpectedPlace, where: str) -> None:
    """Raises ConfigError where a field has not its form or belongs to another service.

    Args:
        header: as it was read; its fields may be of any type.
        expected: of the service that the user named.
        where: whose header it is, for the message.
    """
    _check_words(header, where)
    for name in ("keeper", "unit", "is_user", "folder", "drop_in"):
        if getattr(header, name) != getattr(expected, name):
            raise _refused(where, name, repr(getattr(expected, name)), getattr(header, name))
    if header.kept not in ("", expected.kept):
        raise _refused(where, "kept", repr(expected.kept), header.kept)
    timeout_s: object = header.orphan_timeout_s
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < 1e7:
        raise _refused(where, "orphan_timeout_s", "seconds", timeout_s)
    _check_dependents(header.dependents, where)


def printable(text: str) -> str:
    r"""The text without what a terminal would obey.

    >>> printable("rm\x1b[2J x")
    'rm?[2J x'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _check_words(header: JournalHeader, where: str) -> None:
    """Names, and texts of a known form."""
    for name in _WORDS:
        value = getattr(header, name)
        if not isinstance(value, str) or len(value) > _LONGEST or not _WORD.fullmatch(value):
            raise _refused(where, name, "letters, digits, `_`, `.`, `@` and `-`", value)
    if not _begins_with_time(header.id):
        raise _refused(where, "id", "a name that begins with YYYYMMDD-HHMMSS", header.id)
    if header.kind not in _KINDS:
        raise _refused(where, "kind", " or ".join(_KINDS), header.kind)
    if not isinstance(header.before, str):
        raise _refused(where, "before", "a text", header.before)


def _check_dependents(dependents: object, where: str) -> None:
    """Units that are started again."""
    names = dependents if isinstance(dependents, tuple) else (dependents,)
    for name in names:
        try:
            is_unit = isinstance(name, str) and UnitName.parse(name).full == name
        except ConfigError:
            is_unit = False
        if not is_unit:
            raise _refused(where, "dependents", "full names of services", name)


def _begins_with_time(text: str) -> bool:
    try:
        time.strptime(text[:_STAMP_LENGTH], _STAMP)
    except ValueError:
        return False
    return True


def _refused(where: str, name: str, rule: str, value: object) -> ConfigError:
    return ConfigError(
        f"{printable(where)}: `{name} is {rule}` must hold, got {value!r:.80}: no spectune wrote it, "
        "and nothing of it is used; restore the service on its host by hand (docs/services.md)."
    )
