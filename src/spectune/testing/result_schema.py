"""A strict checker of `spectune.study/1`, hand-written: it shares nothing with the code that writes it.

A shape is a type, a tuple of alternatives, a one-element list (list of that shape), `Text(…)` for fixed
words, `Pair(shape)` for [lo, hi], `By(shape)` for an object with free keys, a dict with exactly these keys.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """One of these words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A list of two, the first not above the second."""

    shape: object


@dataclass(frozen=True, slots=True)
class By:
    """An object with any keys whose values have this shape."""

    shape: object


_NUMBER = (int, float)
_MAYBE = (int, float, None)
_COUNT = (int, None)
CONFIG = {"method": str, "num_steps": int, "topk": int, "num_draft_tokens": int}
_QUANTILES = {"p50": _MAYBE, "p90": _MAYBE, "p99": _MAYBE}
LEVEL = {
    "concurrency": int,
    "num_requests": int,
    "output_tps": _MAYBE,
    "output_tps_ci": (Pair(_NUMBER), None),
    "request_tps": _MAYBE,
    "ttft_s": _QUANTILES,
    "tpot_s": _QUANTILES,
    "e2e_s": _QUANTILES,
    "acceptance_length": _MAYBE,
    "accepted_per_position": [_NUMBER],
    "verify_steps": _COUNT,
    "undrafted_steps": _COUNT,
    "drafted_tokens": _COUNT,
    "accepted_tokens": _COUNT,
    "step_s": _MAYBE,
    "tokens_per_step": _MAYBE,
    "mean_running": _MAYBE,
    "window_s": _NUMBER,
    "disturbed": bool,
    "foreign_cpu_share": _MAYBE,
    "attempt": int,
    "errors": int,
}
_ROLE = Text(("setting", "baseline", "repeat", "confirm", "schedule"))
STUDY = {
    "schema": Text(("spectune.study/1",)),
    "study_id": str,
    "created_unix_s": _NUMBER,
    "finished": str,
    "engine": {"name": str, "version": str},
    "command": str,
    "workload": {
        "name": str,
        "kind": Text(("builtin", "file")),
        "digest": str,
        "num_prompts": int,
        "temperature": _MAYBE,
        "seed": int,
    },
    "environment": {
        "spectune_version": str,
        "python": str,
        "platform": str,
        "cpu_model": str,
        "num_cpus": int,
        "memory_bytes": int,
        "libraries": By(str),
    },
    "concurrency": [int],
    "ci_level": float,
    "trials": [
        {
            "id": int,
            "outcome": Text(("completed", "failed", "infeasible", "void")),
            "reason": str,
            "role": _ROLE,
            "requested": CONFIG,
            "effective": (
                {**CONFIG, "max_running_requests": _COUNT, "max_total_num_tokens": _COUNT, "differs": str},
                None,
            ),
            "launch_s": _MAYBE,
            "levels": [LEVEL],
        }
    ],
    "unfinished": [{"id": int, "role": _ROLE, "requested": CONFIG, "levels": [LEVEL]}],
    "winners": [
        {
            "concurrency": int,
            "config": CONFIG,
            "output_tps": _NUMBER,
            "speedup_over_off": _MAYBE,
            "decided": bool,
            "tie_to_fewer_steps": bool,
            "rivals": [{"config": CONFIG, "ratio": _NUMBER, "ratio_ci": (Pair(_NUMBER), None)}],
        }
    ],
    "crossovers": [{"from": CONFIG, "to": CONFIG, "concurrency": Pair(int), "decided": bool}],
    "recommendation": (
        {"config": CONFIG, "launch_args": [str], "speedup_over_off": By(_MAYBE), "why": str},
        None,
    ),
    "cost": {"launches": int, "wall_s": _NUMBER, "downtime_s": _NUMBER},
}


def schema_faults(value: object) -> Iterator[str]:
    """What is wrong with a parsed result, one line a fault; nothing when it keeps the schema."""
    yield from _faults(value, STUDY, "study")


def _faults(value: object, shape: object, place: str) -> Iterator[str]:
    match shape:
        case dict():
            yield from _object_faults(value, shape, place)
        case list():
            yield from _list_faults(value, shape[0], place)
        case tuple():
            if all(any(True for _ in _faults(value, option, place)) for option in shape):
                yield f"{place}: {value!r} is none of {shape}"
        case Pair(shape=inner):
            yield from _pair_faults(value, inner, place)
        case By(shape=inner):
            yield from _by_faults(value, inner, place)
        case _:
            if not _is_leaf(value, shape):
                yield f"{place}: {shape} was expected, got {value!r}"


def _is_leaf(value: object, shape: object) -> bool:
    if isinstance(shape, Text):
        return value in shape.words
    if isinstance(shape, type):
        return isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    assert shape is None, shape
    return value is None


def _by_faults(value: object, shape: object, place: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{place}: an object was expected, got {value!r}"
        return
    for key, part in value.items():
        yield from _faults(part, shape, f"{place}.{key}")


def _object_faults(value: object, shape: Mapping[str, object], place: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{place}: an object was expected, got {value!r}"
        return
    for key in sorted(set(shape) ^ set(value)):
        yield f"{place}.{key}: is {'missing' if key in shape else 'not in the schema'}"
    for key in set(shape) & set(value):
        yield from _faults(value[key], shape[key], f"{place}.{key}")


def _list_faults(value: object, shape: object, place: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{place}: a list was expected, got {value!r}"
        return
    for index, part in enumerate(value):
        yield from _faults(part, shape, f"{place}[{index}]")


def _pair_faults(value: object, shape: object, place: str) -> Iterator[str]:
    if not isinstance(value, list) or len(value) != 2:
        yield f"{place}: [lo, hi] was expected, got {value!r}"
        return
    yield from _list_faults(value, shape, place)
    if value[0] > value[1]:
        yield f"{place}: lo <= hi must hold, got {value!r}"
