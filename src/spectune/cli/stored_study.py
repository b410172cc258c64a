"""Which stored study a command means, by the name that the user gave."""

from spectune.domain.text import shortened
from spectune.errors import ConfigError
from spectune.storage.sqlite_store import SqliteStore

NEWEST = "last"


def study_named(store: SqliteStore, name: str, command: str) -> str:
    """The id of the study called `name`, `NEWEST` for the newest.

    Args:
        store: where it is looked for.
        name: as the user gave it.
        command: for messages.

    Raises:
        ConfigError: the store has no study, or none of that name.
    """
    studies = [summary.study.id for summary in store.studies()]
    if not studies:
        raise ConfigError(
            f"{command} {shortened(name)}: `a study must be in the store`, {store.path} has none."
        )
    if name == NEWEST:
        return studies[-1]
    if name not in studies:
        raise ConfigError(
            f"{command} {shortened(name)}: `a study of that name is in {store.path}` must hold, there is "
            "none; `spectune show` lists them."
        )
    return name
