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
    "part": Text(("search", "fresh", "ramp")),
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
_ROLE = Text(("setting", "baseline", "repeat", "confirm", "refine", "schedule"))
_RANGES = [[_COUNT]]  # [lo, hi or null, num_steps]
_CI = (Pair(_NUMBER), None)
_CONFIRMATION = {
    "verdict": Text(("confirmed", "not confirmed", "not measured again")),
    "launches": int,
    "failure": str,
    "over_off": _MAYBE,
    "over_off_ci": _CI,
    "rival": (CONFIG, None),
    "over_rival": _MAYBE,
    "over_rival_ci": _CI,
    "levels": [
        {
            "concurrency": int,
            "output_tps": _NUMBER,
            "fresh_over_search": _MAYBE,
            "fresh_over_search_ci": _CI,
            "over_off": _MAYBE,
            "over_off_ci": _CI,
        }
    ],
}
_SCHEDULE = {
    "ranges": _RANGES,
    "exported": By(str),
    "measured": [
        {
            "concurrency": int,
            "ramp": bool,
            "output_tps": _NUMBER,
            "output_tps_ci": _CI,
            "vs_off": _MAYBE,
            "vs_off_ci": _CI,
            "vs_best_fixed": _MAYBE,
            "vs_best_fixed_ci": _CI,
        }
    ],
    "verdict": Text(("recommended", "loses", "not measured")),
    "why": str,
    "best_fixed": CONFIG,
    "mean_gain": _MAYBE,
    "mean_gain_ci": _CI,
}
_DIVERGENCE = ({"concurrency": int, "index": int, "character": int, "token": int}, None)
_LOSSLESS_VERDICT = Text(("exact", "within the noise floor", "differs", "not checked"))
_LOSSLESS = {
    "checked_tokens": int,
    "noise_floor": _MAYBE,
    "agreement": _MAYBE,
    "first_divergence": _DIVERGENCE,
    "verdict": _LOSSLESS_VERDICT,
    "why": str,
    "arms": [
        {
            "config": CONFIG,
            "schedule": (_RANGES, None),
            "checked_tokens": int,
            "answers": int,
            "differing": int,
            "agreement": _MAYBE,
            "first_divergence": _DIVERGENCE,
            "valid": Pair(int),
            "valid_off": Pair(int),
            "tool_calls": Pair(int),
            "tool_calls_off": Pair(int),
            "verdict": _LOSSLESS_VERDICT,
        }
    ],
}
_MIX = {
    "asked": bool,
    "levels": [{"concurrency": int, "share": _NUMBER, "taken_from": [int]}],
    "best_fixed": CONFIG,
    "best_fixed_losses": By(_NUMBER),
    "best_schedule": (_RANGES, None),
    "best_schedule_losses": By(_NUMBER),
    "limits": [
        {
            "config": CONFIG,
            "concurrency": int,
            "name": str,
            "limit_s": _NUMBER,
            "value_s": _NUMBER,
            "low_s": _MAYBE,
            "high_s": _MAYBE,
            "kept": bool,
            "judged_by": Text(("p50", "p90", "p99")),
            "told": bool,
        }
    ],
    "keeps_limits": bool,
}
_NOISE = {
    "prompt_sd": _MAYBE,
    "block_sd": _MAYBE,
    "launch_sd": _NUMBER,
    "launch_degrees": _NUMBER,
    "repeats": int,
    "drift": ({"ratio": _NUMBER, "ratio_ci": Pair(_NUMBER), "arms": int}, None),
}
_CAVEAT = Text(
    ("no acceptance", "all accepted", "acceptance falls", "unreadable counters", "not fresh", "surprising"),
)
_ASKED = {"role": _ROLE, "requested": CONFIG, "lever": str, "schedule": (_RANGES, None)}
_LEVER = {
    "config": CONFIG,
    "lever": str,
    "max_running_requests": _COUNT,
    "levels": [
        {"concurrency": int, "output_tps": _NUMBER, "vs_recommended": _MAYBE, "vs_recommended_ci": _CI}
    ],
    "mean_gain": _MAYBE,
    "mean_gain_ci": _CI,
    "verdict": Text(("better", "not certain", "no gain")),
}
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
        "gpus": [str],
    },
    "concurrency": [int],
    "ci_level": float,
    "trials": [
        {
            "id": int,
            "outcome": Text(("completed", "failed", "infeasible", "void")),
            "reason": str,
            **_ASKED,
            "effective": (
                {**CONFIG, "max_running_requests": _COUNT, "max_total_num_tokens": _COUNT, "differs": str},
                None,
            ),
            "launch_s": _MAYBE,
            "levels": [LEVEL],
        }
    ],
    "unfinished": [{"id": int, **_ASKED, "levels": [LEVEL]}],
    "winners": [
        {
            "concurrency": int,
            "config": CONFIG,
            "output_tps": _NUMBER,
            "speedup_over_off": _MAYBE,
            "speedup_equal_limits": _MAYBE,
            "decided": bool,
            "tie_to_fewer_steps": bool,
            "rivals": [{"config": CONFIG, "ratio": _NUMBER, "ratio_ci": (Pair(_NUMBER), None)}],
        }
    ],
    "crossovers": [
        {
            "from": CONFIG,
            "to": CONFIG,
            "concurrency": Pair(int),
            "decided": bool,
            "certain": (Pair(int), None),
            "cause": (Text(("capacity", "verification cost", "acceptance")), None),
            "narrow": bool,
            "why_wide": str,
        }
    ],
    "break_even": {
        "concurrency": (Pair(int), None),
        "why": str,
        "uncertain": [int],
        "narrow": (bool, None),
        "why_wide": str,
    },
    "baselines": {"equal_limits": _COUNT, "own_capacity": _COUNT},
    "recommendation": (
        {
            "config": CONFIG,
            "launch_args": [str],
            "speedup_over_off": By(_MAYBE),
            "speedup_equal_limits": By(_MAYBE),
            "why": str,
            "why_by_level": By(str),
            "confirmation": _CONFIRMATION,
            "instead_of": (CONFIG, None),
        },
        None,
    ),
    "schedule": (_SCHEDULE, None),
    "levers": [_LEVER],
    "lossless": _LOSSLESS,
    "mix": (_MIX, None),
    "noise": _NOISE,
    "caveats": [{"kind": _CAVEAT, "config": (CONFIG, None), "concurrency": [int], "text": str}],
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
