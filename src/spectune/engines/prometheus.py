"""Prometheus text → samples. Strict: a line it cannot read is an error that names the line.

Format: the text exposition format 0.0.4 (`name{label="value",…} value [timestamp]`, `#` comments).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from spectune.domain.text import is_digits
from spectune.errors import ProtocolError

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(,|\})')
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line of metrics.

    Attributes:
        name: the metric's name.
        labels: (name, value), sorted by name.
        value: may be NaN or infinite.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def label(self, name: str) -> str | None:
        """A label's value, or None where the sample has no such label."""
        return dict(self.labels).get(name)


def parse_metrics(text: str) -> tuple[Sample, ...]:
    """All samples, in the order of the text.

    Raises:
        ProtocolError: a line is neither empty, a comment nor a sample.

    >>> parse_metrics('up{job="a"} 1')
    (Sample(name='up', labels=(('job', 'a'),), value=1.0),)
    """
    lines = (line.strip() for line in text.split("\n"))
    return tuple(_parse_line(line) for line in lines if line and not line.startswith("#"))


def total(samples: Iterable[Sample], name: str) -> float | None:
    """The sum over all label sets of one metric; None when there is none of that name."""
    values = [sample.value for sample in samples if sample.name == name]
    return sum(values) if values else None


def whole(name: str, value: float) -> int:
    """A counter's value as a whole number; raises ProtocolError when it is none."""
    if not 0 <= value < float("inf") or value != value // 1:
        raise ProtocolError(f"/metrics: `{name} is a whole number >= 0` must hold, got {value}.")
    return int(value)


def per_position(samples: Iterable[Sample], name: str) -> tuple[int, ...]:
    """A counter with a `position` label, position 0 first; a position that is not mentioned counts 0."""
    counts: dict[int, int] = {}
    for sample in samples:
        if sample.name == name:
            position = sample.label("position") or ""
            if not is_digits(position) or int(position) > 1000:
                raise ProtocolError(f"/metrics: `{name} has a position` must hold, got {position!r}.")
            counts[int(position)] = counts.get(int(position), 0) + whole(name, sample.value)
    return tuple(counts.get(position, 0) for position in range(max(counts, default=-1) + 1))


def _parse_line(line: str) -> Sample:
    name = _NAME.match(line)
    if name is None:
        raise _unreadable(line)
    rest = line[name.end() :]
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        rest, labels = _parse_labels(rest[1:], line)
    words = rest.split()
    if len(words) not in (1, 2):
        raise _unreadable(line)
    try:
        value = float(words[0])
    except ValueError:
        raise _unreadable(line) from None
    return Sample(name=name.group(), labels=tuple(sorted(labels.items())), value=value)


def _parse_labels(text: str, line: str) -> tuple[str, dict[str, str]]:
    """What follows the closing brace, and the labels."""
    labels: dict[str, str] = {}
    while not text.lstrip().startswith("}"):
        found = _LABEL.match(text)
        if found is None:
            raise _unreadable(line)
        labels[found.group(1)] = _ESCAPE.sub(_unescape, found.group(2))
        text = text[found.end() :]
        if found.group(3) == "}":
            return text, labels
    return text.lstrip()[1:], labels


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n"}.get(found.group(1), found.group(1))


def _unreadable(line: str) -> ProtocolError:
    return ProtocolError(
        f"metrics: `every line is 'name{{labels}} value'` must hold, got {line[:120]!r}; "
        "is this the engine's own port?"
    )
