"""What a vLLM server answers and logs: settings from the log, capacity and counters from `/metrics`. Pure.

speculative_config   only in the log (`Initializing a V1 LLM engine (v…) with config: …`); 0.26, transcript
undrafted steps      inter_token_latency_seconds_count − spec_decode_num_drafts: vLLM notes one gap per
                     sequence and decode step. Equal to the drafts under a fixed setting, and to tokens −
                     requests without speculation, in every recorded run
"""

import re
from collections.abc import Mapping

from spectune.domain.measurement import SpecCounters
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.text import is_digits
from spectune.domain.trial import EffectiveSettings, KeyKind, ReportedKey
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.openai import read_model
from spectune.engines.prometheus import Sample, parse_metrics, per_position, total, whole
from spectune.engines.vllm_config import method_of
from spectune.errors import ProtocolError

_SPECULATIVE = re.compile(r"speculative_config=(?:None|SpeculativeConfig\((?P<inside>.*?)\)(?:,|$))")
_FIELD = re.compile(r"(\w+)=(?:'([^']*)'|([^,]+))")
_KV_TOKENS = re.compile(r"KV cache size: ([0-9,]+) tokens")
_MAX_SEQS = re.compile(r"'max_num_seqs': ([0-9]+)")
_SCHEDULE_DROPPED = re.compile(r".*Disabling num_speculative_tokens_per_batch_size.*")
_CAPACITY = (
    "num_gpu_blocks", "block_size", "kv_cache_max_concurrency", "kv_cache_memory_bytes", "mamba_block_size",
    "mamba_cache_mode",
)  # fmt: skip
COVARIATES = {
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "enable_prefix_caching": "--enable-prefix-caching",
    "cache_dtype": "--kv-cache-dtype",
    "mamba_ssm_cache_dtype": "--mamba-ssm-cache-dtype",
}
"""Labels of `vllm:cache_config_info` and the flags that set them."""


def read_settings(
    answers: tuple[str, ...], log: str, *, asked_method: str, declared: Mapping[str, str]
) -> EffectiveSettings:
    """The effective settings.

    Args:
        answers: of `/version`, `/metrics`, `/v1/models`.
        log: of the server so far.
        asked_method: "auto" where vLLM finds the method out itself, which is then not a difference.
        declared: covariates that the command sets, name to value.
    """
    version, metrics, models = answers
    info = _cache_info(parse_metrics(metrics))
    max_seqs = declared.get("max_num_seqs") or _last(_MAX_SEQS, log)
    return EffectiveSettings(
        config=_config(log, asked_method),
        max_running_requests=int(max_seqs) if max_seqs and is_digits(max_seqs) else None,
        max_total_num_tokens=_kv_tokens(info, log),
        engine_version=JsonAnswer(version, source="/version").optional_text("version") or "",
        model=read_model(models),
        reported=_reported(info, declared),
    )


def schedule_refusal(log: str) -> str:
    """The line that says that a schedule was dropped, "" where there is none (0.32, source)."""
    found = _SCHEDULE_DROPPED.search(log)
    return found[0].strip() if found else ""


def read_counters(body: str) -> SpecCounters:
    """The counters; those of speculation are absent where it is off."""
    samples = parse_metrics(body)
    generated = total(samples, "vllm:generation_tokens_total")
    if generated is None:
        raise ProtocolError(
            "/metrics: `vllm:generation_tokens_total` must be there; it is missing. Leave "
            "--disable-log-stats out."
        )
    drafts = _count(samples, "vllm:spec_decode_num_drafts_total")
    return SpecCounters(
        verify_steps=drafts,
        undrafted_steps=_count(samples, "vllm:inter_token_latency_seconds_count") - drafts,
        drafted_tokens=_count(samples, "vllm:spec_decode_num_draft_tokens_total"),
        accepted_tokens=_count(samples, "vllm:spec_decode_num_accepted_tokens_total"),
        accepted_per_position=per_position(samples, "vllm:spec_decode_num_accepted_tokens_per_pos_total"),
        generated_tokens=whole("vllm:generation_tokens_total", generated),
    )


def _count(samples: tuple[Sample, ...], name: str) -> int:
    value = total(samples, name)
    return 0 if value is None else whole(name, value)


def _config(log: str, asked_method: str) -> SpecConfig:
    found = None
    for line in log.splitlines():
        if "with config:" in line:
            found = _SPECULATIVE.search(line) or found
    if found is None:
        raise ProtocolError(
            "the server's log: `speculative_config=` must be in its first lines; it is missing. vLLM tells "
            "its speculative settings nowhere else."
        )
    if found["inside"] is None:
        return OFF
    fields = {name: quoted or bare for name, quoted, bare in _FIELD.findall(found["inside"])}
    tokens = fields.get("num_spec_tokens", "")
    if not is_digits(tokens) or int(tokens) < 1:
        raise ProtocolError(f"the server's log: `num_spec_tokens >= 1` must hold, got {found[0][:120]!r}.")
    method = asked_method if asked_method == "auto" else method_of(fields)
    return SpecConfig.chain(method, int(tokens))


def _cache_info(samples: tuple[Sample, ...]) -> dict[str, str]:
    for sample in samples:
        if sample.name == "vllm:cache_config_info":
            return dict(sample.labels)
    raise ProtocolError("/metrics: `vllm:cache_config_info` must be there; it is missing.")


def _kv_tokens(info: Mapping[str, str], log: str) -> int | None:
    """Tokens of the KV cache: as told, else blocks × block size, else from the log (older versions)."""
    told = info.get("kv_cache_size_tokens", "")
    if is_digits(told):
        return int(told)
    logged = _last(_KV_TOKENS, log)
    if logged is not None:
        return int(logged.replace(",", ""))
    blocks, size = info.get("num_gpu_blocks", ""), info.get("block_size", "")
    return int(blocks) * int(size) if is_digits(blocks) and is_digits(size) else None


def _reported(info: Mapping[str, str], declared: Mapping[str, str]) -> tuple[ReportedKey, ...]:
    keys = [_key(info, name, "capacity") for name in _CAPACITY if name in info]
    keys += [
        _key(info, name, "covariate" if name in declared else "capacity")
        for name in COVARIATES
        if name in info
    ]
    if "max_num_seqs" in declared:
        keys.append(ReportedKey(name="max_num_seqs", value=declared["max_num_seqs"], kind="covariate"))
    return tuple(keys)


def _key(info: Mapping[str, str], name: str, kind: KeyKind) -> ReportedKey:
    return ReportedKey(name=name, value=info[name], kind=kind)


def _last(pattern: re.Pattern[str], log: str) -> str | None:
    found = pattern.findall(log)
    return str(found[-1]) if found else None
