"""TensorRT-LLM, as far as reading a server and writing its configuration go. UNVERIFIED.

Everything here is read from `llmapi/llm_args.py` and `serve/openai_server.py` of about 1.2 and 1.4-dev;
nothing was run and no transcript exists. `trtllm-serve` is recognised, so as to be refused by its name.
"""

import json

from spectune.domain.command import Command
from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import SpecConfig
from spectune.engines.words import find_engine, program
from spectune.errors import ConfigError, ProtocolError

DECODING_TYPES = {
    "mtp": "MTP", "eagle": "Eagle", "eagle3": "Eagle3", "ngram": "NGram", "draft_model": "Draft_Target",
}  # fmt: skip


def recognises(command: Command) -> bool:
    """`trtllm-serve`, at any place."""
    return find_engine(command, lambda words: int(program(words) == "trtllm-serve")) is not None


def config_file_text(config: SpecConfig, draft_model: str) -> str:
    """The YAML for `trtllm-serve MODEL --config FILE` that asks for a setting; "" for off.

    Args:
        config: a chain.
        draft_model: path or repository of the draft, "" where the method has none.

    Raises:
        ConfigError: a tree, or a method that TensorRT-LLM does not have.
    """
    if config.is_off:
        return ""
    if config.topk > 1 or config.method not in DECODING_TYPES:
        raise ConfigError(
            f"TensorRT-LLM: `a chain by one of {', '.join(DECODING_TYPES)}` must be asked for, got "
            f"{config.label}."
        )
    lines = [
        "speculative_config:",
        f"  decoding_type: {DECODING_TYPES[config.method]}",
        f"  max_draft_len: {config.num_steps}",
    ]
    if draft_model:
        lines.append(f"  speculative_model: {json.dumps(draft_model)}")
    return "\n".join(lines) + "\n"


def read_iteration_stats(body: str) -> SpecCounters:
    """Sums over the iterations that `GET /metrics` gives, which empties its queue: read it all, once.

    Needs `enable_iter_perf_stats: true` in the server's configuration. A generating request counts as a
    verify step in each iteration that drafted.

    Raises:
        ProtocolError: not a list of iterations.
    """
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(iteration, dict) for iteration in found):
        raise ProtocolError(f"/metrics: `a list of iterations` must come, got {body[:120]!r}.")
    steps = drafted = accepted = generating = 0
    for iteration in found:
        batch = _integer(iteration, "inflightBatchingStats", "numGenRequests")
        draft = _integer(iteration, "specDecodingStats", "numDraftTokens")
        generating += batch
        steps += batch if draft else 0
        drafted += draft
        accepted += _integer(iteration, "specDecodingStats", "numAcceptedTokens")
    return SpecCounters(
        verify_steps=steps,
        undrafted_steps=generating - steps,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
    )


def _integer(iteration: dict[str, object], group: str, key: str) -> int:
    values = iteration.get(group)
    value = values.get(key, 0) if isinstance(values, dict) else 0
    if not isinstance(value, int) or value < 0:
        raise ProtocolError(f"/metrics: `{group}.{key} is a whole number` must hold, got {value!r:.80}.")
    return value
