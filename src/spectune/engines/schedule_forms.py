"""One schedule in each engine's own form: texts to paste, and the pieces the dialects start it with. Pure.

engine         form                                         batch size is
sglang         a JSON file by lower bounds, one candidate   decoding sequences, padded to a captured graph's
vllm           [[low, high, steps], …] inclusive            scheduled requests, prefilling ones included
tensorrt_llm   upper bounds (about 1.3 on), before: lower   active requests; UNVERIFIED, source only
llamacpp       one launch profile per range                 does not follow it: whoever starts it chooses
embedded       LOW-HIGH:STEPS,…                             decoding sequences
"""

import json
import shlex
from collections.abc import Callable

from spectune.domain.command import Command
from spectune.domain.schedule import Schedule, ScheduleRange
from spectune.domain.spec_config import SpecConfig
from spectune.domain.text import is_digits
from spectune.engines import embedded, llamacpp_flags, sglang_flags, tensorrt_llm, vllm_config
from spectune.engines.arguments import Flags
from spectune.engines.words import EngineWords

OPEN_END = 1024
"""Upper bound written for the open last range; vLLM carries its steps on above it."""

SGLANG_FILE = "schedule.json"
_ADAPTIVE_METHODS = ("eagle", "eagle3")


def export(schedule: Schedule, method: str) -> dict[str, str]:
    """For each engine the text to paste, or "not possible: " and why.

    Args:
        schedule: steps by batch size.
        method: what drafts in every range.
    """
    forms: dict[str, Callable[[Schedule, str], str]] = {
        "embedded": _embedded_text,
        "sglang": _sglang_text,
        "vllm": _vllm_text,
        "llamacpp": _llamacpp_text,
        "tensorrt_llm": _tensorrt_text,
    }
    return {engine: form(schedule, method) for engine, form in forms.items()}


def adaptive_json(schedule: Schedule) -> str:
    """SGLang's file: by lower bound the one candidate there, so that it adapts to nothing but batch size.

    >>> adaptive_json(Schedule.of((1, 4, 3), (5, None, 0)))
    '{"1": {"candidate_steps": [3]}, "5": {"candidate_steps": [0]}}'
    """
    return json.dumps({str(part.low): {"candidate_steps": [part.num_steps]} for part in schedule.ranges})


def read_adaptive_json(text: str) -> Schedule | None:
    """The schedule that `adaptive_json` wrote; None for a file that chooses among several candidates."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    steps = {int(key): _only_candidate(entry) for key, entry in found.items() if is_digits(key)}
    return _by_lower_bounds(steps)


def adaptive_obstacle(schedule: Schedule, config: SpecConfig) -> str:
    """Why SGLang's adaptive mode cannot follow it in any version, or ""."""
    if config.method not in _ADAPTIVE_METHODS:
        return (
            f"SGLang's adaptive mode drafts with {' or '.join(_ADAPTIVE_METHODS)}, not with {config.method}."
        )
    if config.topk > 1:
        return f"SGLang's adaptive mode needs `topk = 1`, got {config.topk}."
    return _nothing_drafted(schedule)


def batch_size_rows(schedule: Schedule) -> list[list[int]]:
    """Rows for vLLM, inclusive; the open range ends at `OPEN_END`, from where its steps are carried on.

    >>> batch_size_rows(Schedule.of((1, 16, 5), (17, None, 0)))
    [[1, 16, 5], [17, 1024, 0]]
    """
    return [
        [part.low, max(part.low, OPEN_END) if part.high is None else part.high, part.num_steps]
        for part in schedule.ranges
    ]


def read_batch_size_rows(value: object, *, most: int) -> Schedule | None:
    """The schedule that such rows are to vLLM; None where they are none.

    Gaps and the tail carry the steps before them on; no range has more than `most` steps.
    """
    if not isinstance(value, list) or not all(_is_row(row) for row in value):
        return None
    return _by_lower_bounds({row[0]: min(row[2], most) for row in value})


def uncaptured_bounds(schedule: Schedule, graph_sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Lower bounds that SGLang moves down, because a smaller batch is padded up to them.

    Args:
        schedule: steps by batch size.
        graph_sizes: captured batch sizes, ascending.

    >>> uncaptured_bounds(Schedule.of((1, 9, 3), (10, None, 0)), (1, 2, 4, 8, 10))
    (10,)
    """
    largest = max(graph_sizes, default=0)
    return tuple(
        part.low
        for part in schedule.ranges[1:]
        if part.low - 1 <= largest and part.low - 1 not in graph_sizes
    )


def default_graph_sizes() -> tuple[int, ...]:
    """What SGLang captures under speculation unless told otherwise (0.5.23, source)."""
    return (*range(1, 9), *range(10, 33, 2), *range(36, 65, 4), *range(72, 257, 8))


def tensorrt_obstacle(schedule: Schedule, config: SpecConfig) -> str:
    """Why TensorRT-LLM cannot be told it, or "" (source; unverified)."""
    if config.method not in tensorrt_llm.DECODING_TYPES:
        return f"TensorRT-LLM drafts with {', '.join(tensorrt_llm.DECODING_TYPES)}, not with {config.method}."
    if config.topk > 1:
        return f"a chain must be asked for, got topk {config.topk}."
    steps = [part.num_steps for part in schedule.ranges]
    if steps != sorted(steps, reverse=True):
        return f"`steps never rise with the batch` must hold there, got {schedule.label}."
    return _nothing_drafted(schedule)


def upper_bounds(schedule: Schedule) -> dict[int, int]:
    """TensorRT-LLM from about 1.3 on: by inclusive upper bound; above the last one nothing is drafted.

    >>> upper_bounds(Schedule.of((1, 4, 4), (5, 8, 2), (9, None, 0)))
    {4: 4, 8: 2}
    """
    rows = batch_size_rows(schedule)
    while rows and rows[-1][2] == 0:
        rows.pop()
    return {high: steps for _, high, steps in rows}


def lower_bounds(schedule: Schedule) -> dict[int, int]:
    """TensorRT-LLM of about 1.2: by lower bound, 1 being one of them."""
    return {part.low: part.num_steps for part in schedule.ranges}


def _embedded_text(schedule: Schedule, method: str) -> str:
    if method not in embedded.ALGORITHMS:
        return _refused(
            f"the embedded engine drafts with {', '.join(embedded.ALGORITHMS)}, not with {method}."
        )
    return shlex.join(
        ("--speculative-algorithm", embedded.ALGORITHMS[method], "--speculative-schedule", schedule.label)
    )


def _sglang_text(schedule: Schedule, method: str) -> str:
    reason = _nothing_drafted(schedule) or adaptive_obstacle(schedule, _chain(schedule, method))
    if reason:
        return _refused(reason)
    flags = sglang_flags.adaptive_flags(_chain(schedule, method), SGLANG_FILE)
    since = "0.5.15" if _has_pause(schedule) else "0.5.13"
    lines = [f"# SGLang {since} or newer; {SGLANG_FILE}:", adaptive_json(schedule), shlex.join(flags)]
    moved = uncaptured_bounds(schedule, default_graph_sizes())
    if moved:
        bounds = ", ".join(str(bound) for bound in moved)
        lines.insert(1, f"# batches are padded to captured sizes, so the range begins below {bounds}")
    return "\n".join(lines)


def _vllm_text(schedule: Schedule, method: str) -> str:
    reason = _nothing_drafted(schedule)
    if not reason and method not in vllm_config.METHODS:
        reason = f"vLLM has no method {method!r}."
    if reason:
        return _refused(reason)
    values = {"method": method} if method != "auto" else {}
    text = json.dumps({**values, **vllm_config.schedule_keys(schedule.max_steps, batch_size_rows(schedule))})
    lines = [shlex.join((vllm_config.FLAG, text)), "# not under data parallelism, where vLLM drops it"]
    if method in vllm_config.NEED_MODEL:
        lines.append('# add "model": the draft')
    return "\n".join(lines)


def _llamacpp_text(schedule: Schedule, method: str) -> str:
    words = EngineWords(command=Command(argv=("llama-server",)), first=1, arguments=())
    flags = Flags(words=words, rule=llamacpp_flags.RULE)
    profiles: list[str] = []
    for part in schedule.ranges:
        config = SpecConfig.chain(method, part.num_steps)
        if not config.is_off and method not in llamacpp_flags.TYPES:
            return _refused(f"llama.cpp drafts with {', '.join(llamacpp_flags.TYPES)}, not with {method}.")
        line = shlex.join(("llama-server", *llamacpp_flags.setting_flags(flags, config)))
        profiles.append(f"# {_spoken(part)} at once\n{line}")
    return "\n".join(("# one launch per range: llama-server cannot change it while it runs", *profiles))


def _tensorrt_text(schedule: Schedule, method: str) -> str:
    reason = _nothing_drafted(schedule) or tensorrt_obstacle(schedule, _chain(schedule, method))
    if reason:
        return _refused(reason)
    settings = tensorrt_llm.config_file_text(_chain(schedule, method), "")
    new, old = _yaml(upper_bounds(schedule)), _yaml(lower_bounds(schedule))
    return (
        f"# UNVERIFIED: read in the source, never run; not every decoding type allows it\n{settings}"
        f"  # from about 1.3 on, keys are upper bounds:\n  draft_len_schedule: {new}\n"
        f"  # about 1.2, keys are lower bounds:\n  # draft_len_schedule: {old}"
    )


def _chain(schedule: Schedule, method: str) -> SpecConfig:
    return SpecConfig.chain(method, schedule.max_steps)


def _has_pause(schedule: Schedule) -> bool:
    return any(part.num_steps == 0 for part in schedule.ranges)


def _nothing_drafted(schedule: Schedule) -> str:
    return (
        ""
        if schedule.max_steps
        else "`some range drafts` must hold, none does: start it without speculation."
    )


def _refused(reason: str) -> str:
    return f"not possible: {reason}"


def _spoken(part: ScheduleRange) -> str:
    if part.high is None:
        return f"{part.low} and more"
    return str(part.low) if part.high == part.low else f"{part.low} to {part.high}"


def _yaml(values: dict[int, int]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"


def _only_candidate(entry: object) -> int | None:
    candidates = entry.get("candidate_steps") if isinstance(entry, dict) else None
    if not isinstance(candidates, list) or len(candidates) != 1:
        return None
    return candidates[0] if _is_count(candidates[0]) else None


def _is_row(row: object) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(_is_count(number) for number in row)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _by_lower_bounds(steps: dict[int, int | None] | dict[int, int]) -> Schedule | None:
    """The schedule in which each bound's steps hold up to the next one; None where some are not known."""
    known = [(low, number) for low, number in sorted(steps.items()) if number is not None]
    if not known or len(known) < len(steps):
        return None
    lows = [1, *(low for low, _ in known[1:])]
    highs: list[int | None] = [low - 1 for low in lows[1:]]
    triples = zip(lows, [*highs, None], (number for _, number in known), strict=True)
    return Schedule.of(*triples)
