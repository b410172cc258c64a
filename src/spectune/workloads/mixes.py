"""How much of the time a server runs how many requests: read, built in, or counted from a request log. Pure.

A mix is (concurrency, share of time) with shares that sum to 1; time without a request is left out, for no
setting matters then. The built-in mixes are spectune's own assumptions, meant for those who cannot count
theirs; docs/mixes.md says what they stand for.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from spectune.errors import ConfigError

Mix = tuple[tuple[int, float], ...]

MIXES: Mapping[str, Mix] = {
    "agentic-coding": ((1, 0.5), (2, 0.2), (4, 0.2), (8, 0.1)),
    "chat": ((1, 0.1), (4, 0.3), (8, 0.3), (16, 0.2), (32, 0.1)),
    "batch": ((16, 0.2), (32, 0.8)),
}
_LEAST_SHARE = 0.001
_LONGEST_FIELD = 2**27  # bytes; request logs hold prompts
_MOST = 1_000_000  # requests in flight
_FARTHEST_S = 1e12  # beyond any clock, in milliseconds too
_LEVEL = re.compile(r"([0-9]{1,7}):([0-9]{0,9}\.?[0-9]{1,9})%?")
_LIMIT = re.compile(r"((?:ttft|tpot|e2e)_p(?:50|90|99))=([0-9]{0,9}\.?[0-9]{1,9})(ms|s)")
_STARTS = ("start_s", "start", "sent_at_s", "started_at")
_ENDS = ("end_s", "end", "ended_at_s", "ended_at")


def read_mix(text: str) -> Mix | None:
    """The mix of a built-in name or of `LEVEL:SHARE,…`; None for another form.

    Raises:
        ConfigError: a level twice, of 0, or without a share.

    >>> read_mix("4:30%,1:60%,16:10%")
    ((1, 0.6), (4, 0.3), (16, 0.1))
    """
    if text in MIXES:
        return MIXES[text]
    found = [_LEVEL.fullmatch(part.strip()) for part in text.split(",")]
    pairs = [(int(match[1]), float(match[2])) for match in found if match is not None]
    if len(pairs) != len(found):
        return None
    levels = [level for level, _ in pairs]
    is_apart = len(set(levels)) == len(levels)
    if not is_apart or min(levels) < 1 or max(levels) > _MOST or min(share for _, share in pairs) <= 0:
        raise ConfigError(
            f"--mix: `each level from 1 to {_MOST}, once, with a share > 0` must hold, got {text!r:.80}."
        )
    return as_shares(dict(pairs))


def as_shares(weights: Mapping[int, float]) -> Mix:
    """Weights by level as shares that sum to 1, ascending; below one in a thousand they are left out."""
    least = _LEAST_SHARE * sum(weights.values())
    kept = {level: weight for level, weight in weights.items() if weight >= least}
    total = sum(kept.values())
    return tuple((level, round(kept[level] / total, 6)) for level in sorted(kept))


def mix_of_counts(counts: Iterable[int]) -> Mix:
    """The mix of requests in flight seen at evenly spaced moments; none for a server that was always idle.

    Numbers go to the nearest power of two in log(concurrency), so that few levels have to be measured.

    >>> mix_of_counts([0, 1, 1, 3, 4, 5, 0])
    ((1, 0.4), (4, 0.6))
    """
    seen = Counter(_nearest_power(count) for count in counts if count > 0)
    return as_shares(seen) if seen else ()


def mix_of_log(text: str, name: str) -> Mix:
    """The mix of a request log: time by requests in flight, from each request's start and end.

    Args:
        text: JSON lines, or CSV with a header; start and end in seconds under one of the usual names.
        name: for messages.

    Raises:
        ConfigError: no such columns, no requests, or an end before its start.
    """
    spans = [_span(row, name, number) for number, row in enumerate(_rows(text, name), 1)]
    if not spans:
        raise ConfigError(f"--mix {name}: `at least one request` must be in the log, there is none.")
    seconds: dict[int, float] = {}
    in_flight, before_s = 0, 0.0
    for at_s, change in sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]):
        if in_flight > 0:
            level = _nearest_power(in_flight)
            seconds[level] = seconds.get(level, 0.0) + at_s - before_s
        in_flight, before_s = in_flight + change, at_s
    found = {level: spent for level, spent in seconds.items() if spent > 0}
    if not found:
        raise ConfigError(f"--mix {name}: `a request that takes time` must be in the log, none does.")
    return as_shares(found)


def read_slo(text: str) -> tuple[tuple[str, float], ...]:
    """Latency limits in seconds by name.

    Raises:
        ConfigError: not such a list, a limit of 0, or a name twice.

    >>> read_slo("ttft_p99=0.5s,tpot_p50=15ms")
    (('ttft_p99', 0.5), ('tpot_p50', 0.015))
    """
    limits: list[tuple[str, float]] = []
    for part in text.split(","):
        match = _LIMIT.fullmatch(part.strip())
        if match is None:
            raise ConfigError(
                "--slo: `limits such as ttft_p99=0.5s,tpot_p50=15ms` (ttft, tpot or e2e; p50, p90 or p99) "
                f"must be given, got {part!r:.60}."
            )
        limits.append((match[1], float(match[2]) / (1000.0 if match[3] == "ms" else 1.0)))
    names = [name for name, _ in limits]
    if len(set(names)) != len(names) or min(limit for _, limit in limits) <= 0:
        raise ConfigError(f"--slo: `each limit once and above 0` must hold, got {text!r:.80}.")
    return tuple(limits)


def _nearest_power(count: int) -> int:
    return int(2 ** math.floor(math.log2(count) + 0.5))


def _rows(text: str, name: str) -> Sequence[Mapping[str, object]]:
    if not text.lstrip().startswith("{"):
        return _table(text, name)
    rows: list[Mapping[str, object]] = []
    for number, line in enumerate(text.split("\n"), 1):  # a prompt may hold other line separators
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise ConfigError(f"--mix {name}: `line {number} is JSON` must hold, it is not.") from exc
        if not isinstance(row, dict):
            raise ConfigError(f"--mix {name}: `line {number} is a JSON object` must hold, it is not.")
        rows.append(row)
    return rows


def _table(text: str, name: str) -> Sequence[Mapping[str, object]]:
    usual = csv.field_size_limit(_LONGEST_FIELD)  # the limit is the whole process's
    try:
        return list(csv.DictReader(io.StringIO(text)))
    except csv.Error as exc:
        raise ConfigError(f"--mix {name}: `the log is CSV or JSON lines` must hold, got: {exc}.") from exc
    finally:
        csv.field_size_limit(usual)


def _span(row: Mapping[str, object], name: str, number: int) -> tuple[float, float]:
    start, end = (
        next((row[key] for key in keys if row.get(key) not in (None, "")), None) for keys in (_STARTS, _ENDS)
    )
    try:
        span = float(str(start)), float(str(end))
    except ValueError:
        span = math.nan, math.nan
    if not (-_FARTHEST_S <= span[0] <= span[1] <= _FARTHEST_S):
        raise ConfigError(
            f"--mix {name}: `each request has a start and an end in seconds` ({' or '.join(_STARTS)}; "
            f"{' or '.join(_ENDS)}) must hold, request {number} has {start!r:.30} and {end!r:.30}."
        )
    return span
