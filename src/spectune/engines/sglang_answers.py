"""What an SGLang server answers: `/server_info` to settings, `/metrics` to counters. Pure.

/server_info             resolved arguments at the top; capacity and the step count in force under
                         `internal_states` (0.5.17; one per data-parallel rank, the first is read)
spec_verify_calls_total  verify steps of finished requests; there from about 0.5.15 on (absent in 0.5.12)
accepted tokens          generation_tokens − num_requests − spec_verify_calls: of a request's tokens one
                         comes from prefill, one from each verify step, the rest are accepted drafts
                         (0.5.17: 24 tokens = 1 + 9 steps + 14 correct drafts)
"""

from collections.abc import Iterable

from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import EffectiveSettings, KeyKind, ReportedKey
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.prometheus import Sample, parse_metrics, total, whole
from spectune.engines.sglang_flags import METHODS
from spectune.errors import ConfigError, ProtocolError

COVARIATES = (
    "max_running_requests", "mem_fraction_static", "max_total_tokens", "chunked_prefill_size", "page_size",
    "attention_backend", "kv_cache_dtype", "disable_radix_cache", "tp_size", "dp_size", "mamba_ssm_dtype",
    "mamba_full_memory_ratio", "max_mamba_cache_size", "mamba_radix_cache_strategy",
    "mamba_scheduler_strategy", "enable_linear_replayssm_spec", "cuda_graph_max_bs", "disable_cuda_graph",
    "disable_overlap_schedule", "schedule_policy", "stream_interval",
)  # fmt: skip
_REQUESTED = (
    "speculative_draft_model_path", "speculative_accept_threshold_single", "speculative_accept_threshold_acc",
    "speculative_adaptive",
)  # fmt: skip

_STATE = ("decode_cuda_graph_bs", "memory_usage", "max_mamba_cache_size")


def read_server_info(body: str, *, declared: frozenset[str]) -> EffectiveSettings:
    """The effective settings; `declared` names the arguments that the command sets itself."""
    info = JsonAnswer(body, source="/server_info")
    state = info.optional_object("internal_states")
    return EffectiveSettings(
        config=_config(info, state),
        max_running_requests=_capacity(info, state),
        max_total_num_tokens=info.optional_int("max_total_num_tokens"),
        engine_version=info.optional_text("version") or "",
        model=info.optional_text("model_path") or "",
        reported=_reported(info, state, declared),
    )


def read_counters(body: str, config: SpecConfig) -> SpecCounters | None:
    """The counters from `/metrics`; None where this version does not count verify steps.

    Drafted tokens are not counted: each verify step has those of the setting. (The gauge of draft tokens
    is refreshed once in a decode-log interval, so it cannot be trusted early in a server's life.)
    """
    samples = parse_metrics(body)
    if total(samples, "sglang:num_running_reqs") is None:
        raise ProtocolError(
            "/metrics: `sglang:num_running_reqs` must be there; it is missing. Start the server with "
            "--enable-metrics."
        )
    generated = _count(samples, "sglang:generation_tokens_total")
    requests = _count(samples, "sglang:num_requests_total")
    steps = _count(samples, "sglang:spec_verify_calls_total")
    if steps == 0:
        if (total(samples, "sglang:spec_accept_length") or 0.0) > 0:
            return None
        return _undrafted(generated - requests, generated)
    return SpecCounters(
        verify_steps=steps,
        undrafted_steps=0,
        drafted_tokens=steps * (config.num_draft_tokens - 1),
        accepted_tokens=generated - requests - steps,
        generated_tokens=generated,
    )


def _undrafted(steps: int, generated: int) -> SpecCounters:
    return SpecCounters(
        verify_steps=0,
        undrafted_steps=steps,
        drafted_tokens=0,
        accepted_tokens=0,
        generated_tokens=generated,
    )


def _count(samples: Iterable[Sample], name: str) -> int:
    """A counter that does not exist before it first moves."""
    value = total(samples, name)
    return 0 if value is None else whole(name, value)


def _config(info: JsonAnswer, state: JsonAnswer | None) -> SpecConfig:
    if not info.has("speculative_algorithm"):
        raise ProtocolError("/server_info: `speculative_algorithm` must be there; it is missing.")
    algorithm = info.optional_text("speculative_algorithm")
    if algorithm is None:
        return OFF
    if algorithm not in METHODS:
        raise ProtocolError(f"/server_info: `speculative_algorithm` is {algorithm!r}, not known here.")
    is_told = state is not None and state.has("speculative_num_draft_tokens")
    is_adaptive = info.value("speculative_adaptive") is True  # the state's is that of the moment then
    source = state if state is not None and is_told and not is_adaptive else info
    topk = source.optional_int("speculative_eagle_topk") or 1
    draft_tokens = source.optional_int("speculative_num_draft_tokens")
    num_steps = source.optional_int("speculative_num_steps")
    if METHODS[algorithm] == "ngram" and topk == 1 and draft_tokens:
        num_steps = draft_tokens - 1  # SGLang says draft_tokens // topk there, the root included
    if not num_steps:
        raise ProtocolError(
            f"/server_info: `speculative_num_steps >= 1 under {algorithm}` must hold, got {num_steps}."
        )
    try:
        return SpecConfig(
            method=METHODS[algorithm],
            num_steps=num_steps,
            topk=topk,
            num_draft_tokens=draft_tokens or num_steps + 1,
        )
    except ConfigError as error:
        raise ProtocolError(f"/server_info: {error}") from error


def _capacity(info: JsonAnswer, state: JsonAnswer | None) -> int | None:
    """Requests that really run at once (per data-parallel rank); the argument where that is not told."""
    if state is not None:
        effective = state.optional_int("effective_max_running_requests_per_dp")
        if effective is not None:
            return effective
    return info.optional_int("max_running_requests")


def _reported(
    info: JsonAnswer, state: JsonAnswer | None, declared: frozenset[str]
) -> tuple[ReportedKey, ...]:
    keys = [_key(info, name, "requested") for name in _REQUESTED if info.has(name)]
    keys += [
        _key(info, name, "covariate" if name in declared else "capacity")
        for name in COVARIATES
        if info.has(name)
    ]
    if state is not None:
        keys += [_key(state, name, "capacity") for name in _STATE if state.has(name) and not info.has(name)]
    return tuple(keys)


def _key(info: JsonAnswer, name: str, kind: KeyKind) -> ReportedKey:
    return ReportedKey(name=name, value=str(info.value(name)), kind=kind)
