"""Command-line flags as values: `--name value` and `--name=value`, repeated flags, exact removal."""

from spectune.errors import ConfigError


def flag_value(argv: tuple[str, ...], name: str) -> str | None:
    """The value of the last `--name value` or `--name=value`, as argparse would take it; None if absent.

    Raises:
        ConfigError: the flag stands last, without a value.

    >>> flag_value(("serve", "--port", "1", "--port=2"), "--port")
    '2'
    """
    value = None
    for place, word in enumerate(argv):
        if word == name:
            if place + 1 == len(argv):
                raise ConfigError(
                    f"serve command: `{name}` must be followed by a value; it is the last word."
                )
            value = argv[place + 1]
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value


def int_flag(argv: tuple[str, ...], name: str) -> int | None:
    """The flag's value as a whole number, None if absent; raises ConfigError."""
    value = flag_value(argv, name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"serve command: `{name} is a whole number` must hold, got {value!r}.") from None


def without_flags(argv: tuple[str, ...], names: frozenset[str]) -> tuple[str, ...]:
    """The words without these flags and their values; everything else stays as and where it is.

    >>> without_flags(("serve", "--k", "3", "--x", "--k=4"), frozenset({"--k"}))
    ('serve', '--x')
    """
    kept: list[str] = []
    skip_next = False
    for word in argv:
        if skip_next:
            skip_next = False
        elif word in names:
            skip_next = True
        elif word.partition("=")[0] not in names:
            kept.append(word)
    return tuple(kept)
