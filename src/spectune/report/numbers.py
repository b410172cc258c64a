"""Figures as text: the only place that scales and rounds units."""

from collections.abc import Sequence

MISSING = "–"


def rate(value: float | None) -> str:
    """Tokens or requests a second, three or more significant digits.

    >>> rate(1733.4), rate(277.04), rate(27.04), rate(2.704), rate(None)
    ('1733', '277.0', '27.0', '2.70', '–')
    """
    if value is None:
        return MISSING
    digits = 0 if value >= 999.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"


def milliseconds(value_s: float | None) -> str:
    """Seconds as milliseconds, without the unit.

    >>> milliseconds(0.01234), milliseconds(0.009999), milliseconds(1.5), milliseconds(None)
    ('12.3', '10.0', '1500', '–')
    """
    if value_s is None:
        return MISSING
    value = 1000 * value_s
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"


def ratio(value: float | None) -> str:
    """A ratio with its sign of multiplication.

    >>> ratio(1.6234), ratio(None)
    ('1.62×', '–')
    """
    return MISSING if value is None else f"{value:.2f}×"


def per_step(value: float | None) -> str:
    """Tokens per step.

    >>> per_step(2.345), per_step(None)
    ('2.35', '–')
    """
    return MISSING if value is None else f"{value:.2f}"


def percent(share: float, *, signed: bool = False) -> str:
    """A share as percent; below 10 % with one decimal.

    >>> percent(0.0414), percent(0.5), percent(0.031, signed=True), percent(-0.02, signed=True)
    ('4.1%', '50%', '+3.1%', '−2.0%')
    """
    value = 100 * share
    digits = 1 if abs(value) < 9.95 else 0
    sign = ("−" if round(value, digits) < 0 else "+") if signed else "−" if round(value, digits) < 0 else ""
    return f"{sign}{abs(value):.{digits}f}%"


def duration(value_s: float) -> str:
    """A length of time for people.

    >>> duration(0.4), duration(42.4), duration(192), duration(4000)
    ('0.4 s', '42 s', '3 min 12 s', '1 h 6 min')
    """
    if value_s < 9.95:
        return f"{value_s:.1f} s"
    seconds = round(value_s)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def gibibytes(value_bytes: int) -> str:
    """Bytes as GiB.

    >>> gibibytes(8 * 2**30)
    '8.0 GiB'
    """
    return f"{value_bytes / 2**30:.1f} GiB"


def count(value: int | None) -> str:
    """A whole number.

    >>> count(12), count(None)
    ('12', '–')
    """
    return MISSING if value is None else str(value)


def levels(concurrency: Sequence[int]) -> str:
    """Levels of concurrency as in a sentence.

    >>> levels((1, 4)), levels((1,))
    ('1 and 4 concurrent requests', '1 concurrent request')
    """
    noun = "request" if tuple(concurrency) == (1,) else "requests"
    return f"{listing([str(level) for level in concurrency])} concurrent {noun}"


def listing(words: Sequence[str], last: str = "and") -> str:
    """Words joined as in a sentence.

    >>> listing(["1", "4", "16"]), listing(["1"]), listing(["1", "4"])
    ('1, 4 and 16', '1', '1 and 4')
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
