"""JSON, CSV and numbers of files that users hand in: read within bounds, or refused with ConfigError. Pure.

What a file may hold is bounded here, so that nothing behind it meets nesting, digits or characters that
cannot be computed with or written again.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterator

from spectune.errors import ConfigError

MAX_DEPTH = 50
MAX_NUM_STEPS = 1000
MAX_TOPK = 100
MAX_REQUESTS = 1_000_000
MAX_TOKENS = 10**12
MAX_VERIFY_STEPS = 10**12
_LARGEST = 10**30  # of any whole number in a file, read or not
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")


def json_of(text: str, name: str) -> object:
    """The value in a JSON text."""
    try:
        data: object = json.loads(text)
    except json.JSONDecodeError as exc:
        raise ConfigError(f"{name} line {exc.lineno}: `valid JSON` must hold: {exc.msg}.") from exc
    except RecursionError as exc:
        raise _too_deep(name) from exc
    except ValueError as exc:  # more digits than the interpreter turns into a number
        raise _too_large(name) from exc
    _check_value(data, name)
    return data


def csv_lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of each line that is not blank, under the delimiter that the first one shows."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=header.count))
    try:
        for values in reader:
            if any(value.strip() for value in values):
                yield reader.line_num, [value.strip() for value in values]
    except csv.Error as exc:
        raise ConfigError(
            f"{name} line {reader.line_num}: `valid CSV` must hold, got: {exc}; mend the line."
        ) from exc


def number_of(raw: object, column: str, place: str) -> float:
    """A finite number, given as one or as text with ASCII digits."""
    is_text = isinstance(raw, str) and _NUMBER.fullmatch(raw.strip()) is not None
    value = math.nan
    if is_text or isinstance(raw, float) or (type(raw) is int and abs(raw) <= _LARGEST):
        value = float(raw)  # type: ignore[arg-type]
    if not math.isfinite(value):
        raise ConfigError(f"{place}: `{column} is a number` must hold, got {raw!r:.40}; correct it.")
    return value


def count_of(raw: object, column: str, place: str, *, lowest: int, highest: int) -> int:
    """A whole number inside its bounds."""
    value = number_of(raw, column, place)
    if value != int(value) or value < lowest:
        raise ConfigError(f"{place}: `{column} is a whole number >= {lowest}` must hold, got {value:g}.")
    if value > highest:
        raise ConfigError(f"{place}: `{column} <= {highest}` must hold, got {value:g}; correct it.")
    return int(value)


def _check_value(data: object, name: str) -> None:
    """Depth, size of whole numbers and characters of everything inside."""
    level, depth = [data], 0
    while level:
        if depth >= MAX_DEPTH and any(isinstance(value, dict | list) for value in level):
            raise _too_deep(name)
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner += [*value.keys(), *value.values()]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, str):
                _check_characters(value, name)
            elif isinstance(value, int) and abs(value) > _LARGEST:
                raise _too_large(name)
        level, depth = inner, depth + 1


def _check_characters(value: str, name: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise ConfigError(
            f"{name}: `text without lone surrogates` must hold, got {value!a:.40}; rename it."
        ) from exc


def _too_deep(name: str) -> ConfigError:
    return ConfigError(
        f"{name}: `at most {MAX_DEPTH} levels of nesting` must hold, got more; see docs/predict.md."
    )


def _too_large(name: str) -> ConfigError:
    return ConfigError(
        f"{name}: `whole numbers of at most 30 digits` must hold, got a larger one; correct it."
    )
