"""Words of the command line to values: lists and ranges, and a parser whose errors are ours."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from spectune.domain.text import shortened
from spectune.errors import ConfigError

_NUMBER = re.compile(r"[0-9]{1,7}")
_RANGE = re.compile(r"([0-9]{1,7})\.\.([0-9]{1,7})")
_LARGEST = 1_000_000
_LONGEST_S = 1e9
_LONGEST_MESSAGE = 300


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError in our form instead of printing its usage."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raises what argparse found wrong; it repeats what was given, however long."""
        raise ConfigError(f"{self.prog}: {shortened(message, _LONGEST_MESSAGE)}; see `{self.prog} --help`.")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The options of these words; raises ConfigError, also for one whose value is empty."""
        found = self.parse_args(list(words))
        empty = [name for name, value in vars(found).items() if _is_empty(value)]
        if empty:
            flag = f"--{empty[0].replace('_', '-')}"
            raise ConfigError(f"{self.prog}: `{flag} has a value` must hold, it is empty; leave it out.")
        return found


def _is_empty(value: object) -> bool:
    """Whether an option was given without a word in it; of one that may be given again, any time."""
    given = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and not text.strip() for text in given)


def parse_numbers(text: str, *, flag: str, lowest: int) -> tuple[int, ...]:
    """A list of numbers and ranges, both ends included; ascending, without repeats.

    Args:
        text: such as "0,2,4" or "1..5,8".
        flag: for messages.
        lowest: smallest number allowed.

    Raises:
        ConfigError: not such a list, a number too small, or one given twice.

    >>> parse_numbers("1..3,8", flag="--num-steps", lowest=0)
    (1, 2, 3, 8)
    """
    numbers: list[int] = []
    for word in text.split(","):
        numbers += _numbers_of(word.strip(), flag, text)
    if min(numbers) < lowest:
        raise ConfigError(f"{flag}: `each number >= {lowest}` must hold, got {min(numbers)} in {text!r:.80}.")
    repeated = sorted({number for number in numbers if numbers.count(number) > 1})
    if repeated:
        raise ConfigError(f"{flag}: `no number twice` must hold, got {repeated[0]} again in {text!r:.80}.")
    return tuple(sorted(numbers))


def _numbers_of(word: str, flag: str, text: str) -> list[int]:
    if _NUMBER.fullmatch(word) and int(word) <= _LARGEST:
        return [int(word)]
    ends = _RANGE.fullmatch(word)
    if ends is None:
        raise ConfigError(
            f"{flag}: `numbers and ranges such as 0,2,4 or 1..5,8` must hold, "
            f"got {word!r:.40} in {text!r:.80}."
        )
    first, last = int(ends[1]), int(ends[2])
    if not first <= last <= first + 1000:
        raise ConfigError(f"{flag}: `a range ascends` (by 1000 at most) must hold, got {word!r}.")
    return list(range(first, last + 1))


def parse_count(text: str, *, flag: str, lowest: int, highest: int | None = None) -> int:
    """One whole number.

    Args:
        text: the number.
        flag: for messages.
        lowest: smallest number allowed.
        highest: largest number allowed; None for no limit.

    Raises:
        ConfigError: not a whole number, too small or too large.
    """
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise ConfigError(f"{flag}: `a whole number` must be given, got {text!r:.80}.")
    if int(text) < lowest:
        raise ConfigError(f"{flag}: `{flag} >= {lowest}` must hold, got {text}.")
    if highest is not None and int(text) > highest:
        raise ConfigError(f"{flag}: `{flag} <= {highest}` must hold, got {text}.")
    return int(text)


def parse_seconds(text: str, *, flag: str) -> float:
    """A positive, finite number of seconds; raises ConfigError."""
    try:
        value = float(text)
    except ValueError as exc:
        raise ConfigError(f"{flag}: `seconds` must be a number, got {text!r:.80}.") from exc
    if not 0 < value <= _LONGEST_S:
        raise ConfigError(f"{flag}: `0 < seconds <= {_LONGEST_S:g}` must hold, got {text:.80}.")
    return value


def parse_duration(text: str, *, flag: str) -> float:
    """Seconds of a time such as "90s", "30m" or "2h"; a bare number is seconds; raises ConfigError.

    >>> parse_duration("30m", flag="--max-downtime")
    1800.0
    """
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:], 0.0)
    try:
        return parse_seconds(text[:-1] if unit else text, flag=flag) * (unit or 1.0)
    except ConfigError as exc:
        raise ConfigError(
            f"{flag}: `a time such as 90s, 30m or 2h` must be given, got {text!r:.80}."
        ) from exc


def parse_share(text: str, *, flag: str) -> float:
    """A share between 0 and 1, both excluded, as "0.5%" or "0.005"; raises ConfigError.

    >>> parse_share("0.5%", flag="--tolerance")
    0.005
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise ConfigError(f"{flag}: `a share such as 0.5% or 0.005` must be given, got {text!r:.80}.")
    return value
