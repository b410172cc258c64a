"""Capacity at settings that were not launched, guessed from those that were.

Without the model's shape only the form of the laws in capacity.py is known:

    constant     N does not depend on draft tokens          attention-only models
    linear       N = p − q·D                                reserve_first
    reciprocal   1 ÷ N = p + q·D                            joint_solve, shared_pages

Under other capacity flags (a lever) nothing is known before a launch with them. A flag that names a limit V
either cuts, N' = min(N, V), or frees what was reserved for requests that never ran, N' = V; any other flag
leaves N as it is or makes room for half as many again.

Symbols: N requests that run at once; D draft tokens, root included; p, q fitted. One read-back leaves q
open: it is then taken from published servers (26, 21, 17 requests at 2, 3, 4 draft tokens; 5 or 1 slots
per request).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from spectune.perfmodel.evidence import CapacityCurve

READBACK_SD = 0.6  # requests; floors hide up to one
MAX_CURVES = 8  # joint hypotheses kept
_LIMIT_FLAGS = ("--max-running-requests", "--max-num-seqs", "--parallel", "-np")
_LINEAR_END = 7.8  # draft tokens that would leave no request: 26, 21, 17 at 2, 3, 4
_ONE_POINT = (
    ("constant", 0.5, None),
    ("linear", 0.25, _LINEAR_END),
    ("slots 5", 0.15, 5.0),
    ("slots 1", 0.1, 1.0),
)

Curve = Callable[[float], float]


def believed_curves(
    readbacks: Mapping[int, int], draft_tokens: Sequence[int], *, lever: str = ""
) -> tuple[CapacityCurve, ...]:
    """Hypotheses about capacity at `draft_tokens`; what was read back is kept as it is.

    Args:
        readbacks: requests that ran at once, by draft tokens.
        draft_tokens: where it is wanted.
        lever: capacity flags it holds for.
    """
    if not readbacks:
        return ()
    wanted = sorted({*draft_tokens, *readbacks})
    known = sorted(readbacks.items())
    if len(known) == 1:
        laws = _laws_through_one(known[0])
    elif len({requests for _, requests in known}) == 1:
        laws = [("constant", 1.0, lambda _: float(known[0][1]))]
    else:
        laws = _laws_through_many(known)
    curves: dict[tuple[tuple[str, int, int], ...], CapacityCurve] = {}
    for law, weight, curve in laws:
        running = tuple((lever, tokens, n) for tokens, n in _monotone(curve, wanted, readbacks))
        if running in curves:
            weight += curves[running].weight  # noqa: PLW2901  (two laws that say the same)
        curves[running] = CapacityCurve(law=law, weight=weight, running=running)
    return tuple(curves.values())


def curves_under(
    readbacks: Mapping[str, Mapping[int, int]], draft_tokens: Sequence[int]
) -> tuple[CapacityCurve, ...]:
    """Hypotheses about capacity under every lever together; levers not read back are guessed.

    Args:
        readbacks: requests that ran at once, by lever ("" for the command's own flags) and draft tokens.
        draft_tokens: where it is wanted.
    """
    joint = believed_curves(readbacks.get("", {}), draft_tokens)
    for lever in readbacks:
        if not lever:
            continue
        read = believed_curves(readbacks[lever], draft_tokens, lever=lever)
        pairs = [(own, other) for own in joint for other in (read or _guessed(lever, own))]
        joint = tuple(sorted(map(_joined, pairs), key=lambda c: (-c.weight, c.law))[:MAX_CURVES])
    return joint


def named_limit(lever: str) -> int | None:
    """Running requests that a lever asks for, or None where it is another flag.

    >>> named_limit("--max-running-requests 16"), named_limit("--mem-fraction-static 0.9")
    (16, None)
    """
    words = lever.replace("=", " ").split()
    for flag, value in pairwise(words):
        if flag in _LIMIT_FLAGS and value.isdigit() and int(value) > 0:
            return int(value)
    return None


def _guessed(lever: str, own: CapacityCurve) -> tuple[CapacityCurve, ...]:
    limit = named_limit(lever)
    options: tuple[tuple[str, float, Callable[[int], int]], ...] = (
        ("as before", 0.4, lambda requests: requests),
        ("half more", 0.6, lambda requests: requests + requests // 2),
    )
    if limit is not None:
        options = (("cut", 0.5, lambda requests: min(requests, limit)), ("freed", 0.5, lambda _: limit))
    return tuple(
        CapacityCurve(
            law=law,
            weight=weight,
            running=tuple((lever, tokens, change(n)) for name, tokens, n in own.running if not name),
        )
        for law, weight, change in options
    )


def _joined(pair: tuple[CapacityCurve, CapacityCurve]) -> CapacityCurve:
    own, other = pair
    return CapacityCurve(
        law=f"{own.law}, {other.law}",
        weight=own.weight * other.weight,
        running=(*own.running, *other.running),
    )


def _laws_through_one(point: tuple[int, int]) -> list[tuple[str, float, Curve]]:
    at, requests = point

    def curve(law: str, value: float | None) -> Curve:
        if value is None:
            return lambda _: float(requests)
        if law == "linear":
            return lambda tokens: requests * max(value - tokens, 0.0) / (value - at)
        return lambda tokens: requests * (value + at) / (value + tokens)

    return [
        (law, weight, curve(law, value))
        for law, weight, value in _ONE_POINT
        if law != "linear" or at < _LINEAR_END
    ]


def _laws_through_many(known: list[tuple[int, int]]) -> list[tuple[str, float, Curve]]:
    """Least squares in requests + ½, the middle of what the floor hides; weight by misfit."""
    at = np.array([tokens for tokens, _ in known], dtype=float)
    seen = np.array([requests + 0.5 for _, requests in known])
    slope, start = np.polyfit(at, seen, 1)
    rise, base = np.polyfit(at, 1.0 / seen, 1)

    def linear(tokens: float) -> float:
        return float(start + slope * tokens)

    def reciprocal(tokens: float) -> float:
        return 1.0 / max(float(base + rise * tokens), 1e-6)

    laws: list[tuple[str, float, Curve]] = []
    for law, curve in (("linear", linear), ("reciprocal", reciprocal)):
        misfit = sum(((curve(t) - s) / READBACK_SD) ** 2 for t, s in zip(at, seen, strict=True))
        laws.append((law, math.exp(-0.5 * min(misfit, 50.0)), curve))
    return laws


def _monotone(curve: Curve, wanted: list[int], readbacks: Mapping[int, int]) -> list[tuple[int, int]]:
    """Floors of a curve, never growing, never contradicting a read-back."""
    values: list[tuple[int, int]] = []
    for tokens in wanted:
        upper = min((n for t, n in readbacks.items() if t <= tokens), default=None)
        lower = max((n for t, n in readbacks.items() if t >= tokens), default=1)
        value = readbacks.get(tokens, max(1, math.floor(curve(tokens))))
        if tokens not in readbacks:
            value = max(value, lower) if upper is None else min(max(value, lower), upper)
        values.append((tokens, min([value, *(n for _, n in values)])))
    return values
