"""The dialect of vLLM 0.20 to 0.33 (V1 engine).

Proved by whole studies: 0.26.0 on an H200 (dense models with EAGLE-3), 0.32.0 on a CPU; by transcript: 0.26.0
on an H200 also for a hybrid MoE with MTP (settings, capacity, counters), 0.32.0 n-gram drafts and failures.
Read from the source of 0.32.0: failure texts, shortcuts, files, what goes together.
"""

import re
from dataclasses import dataclass, replace
from typing import Self

from spectune.domain.command import Command, HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import EffectiveSettings
from spectune.engines import openai, vllm_answers, vllm_config
from spectune.engines.adapter import NO_FACTS, Diagnosis, EngineFacts, Prepared, Scheduled, ServerTraces
from spectune.engines.arguments import FlagRule, Flags
from spectune.engines.failure import OUT_OF_MEMORY, SIGNS, Sign, diagnose
from spectune.engines.levers import aliases_of, lever_words
from spectune.engines.publishing import endpoint_of
from spectune.engines.schedule_forms import batch_size_rows, read_batch_size_rows
from spectune.engines.words import engine_words, find_engine, is_image, is_module, program
from spectune.engines.yaml_arguments import file_arguments
from spectune.errors import ConfigError

_RULE = FlagRule(has_underscores=True)
_MAX_SEQS = "--max-num-seqs"
_UTILIZATION = "--gpu-memory-utilization"
_MAX_CAPTURE, _DEFAULT_MAX_CAPTURE = "--max-cudagraph-capture-size", 512
_GRAPH_FLAGS = ("--compilation-config", "-cc", "--cudagraph-capture-sizes")
_DEFAULT_UTILIZATION = 0.9  # 0.92 in 0.32
_LESS_MEMORY, _LEAST_UTILIZATION = 0.05, 0.3
_NOTHING_LEFT = re.compile(r"No available memory for the cache blocks")
_TOO_LITTLE = re.compile(
    rf"{_NOTHING_LEFT.pattern}|To serve at least one request with the model's max seq len"
)
_COMPILES = re.compile(r"JIT compilation during inference:|Graph capturing finished|torch\.compile took")
_SIGNS = (
    Sign(
        pattern=re.compile(r"Free memory on device .* on startup is less than desired"),
        kind="memory_held",
        next_step="Another process holds that memory, often a server stopped just before; nvidia-smi shows "
        "which. End it or wait, or lower --gpu-memory-utilization.",
    ),
    Sign(
        pattern=_NOTHING_LEFT,
        kind="out_of_memory",
        next_step="Raise --gpu-memory-utilization: weights and activations take all of that share.",
    ),
    Sign(
        pattern=_TOO_LITTLE,
        kind="out_of_memory",
        next_step="Raise --gpu-memory-utilization, or lower --max-model-len or the number of draft tokens.",
    ),
    Sign(
        pattern=OUT_OF_MEMORY,
        kind="out_of_memory",
        next_step="Lower --gpu-memory-utilization (or --kv-cache-memory-bytes, which goes before it) or "
        "--max-num-seqs, or try fewer draft tokens.",
    ),
    Sign(
        pattern=re.compile(
            r"Repo id must be in the form|is not a valid model identifier|RepositoryNotFoundError"
            r"|does not appear to have a file named config\.json|Invalid repository ID or local directory"
        ),
        kind="missing_draft",
        next_step="Correct `model` in --speculative-config (or the served model): nothing is found there.",
    ),
    Sign(
        pattern=re.compile(
            r"(?:Target and draft model should have the same vocabulary|is not supported with speculative"
            r"|[Ss]peculative decoding .*not (?:yet )?support|must be divisible by.*n_predict"
            r"|NotImplementedError)"
        ),
        kind="unsupported",
        next_step="This combination cannot run in this version; leave the setting out.",
    ),
    Sign(
        pattern=re.compile(r"^\s*Value error, "),
        kind="bad_argument",
        next_step="Correct the value in --speculative-config, or the flag that the message names.",
    ),
    *SIGNS,
)


def starts(words: tuple[str, ...]) -> int:
    """`vllm serve`, the API server's module, or the official image with arguments only."""
    if is_module(words, "vllm.entrypoints.openai.api_server"):
        return 2
    if is_module(words, "vllm.entrypoints.cli.main") and words[2:3] == ("serve",):
        return 3
    if is_image(words, "vllm-openai"):
        return 1
    return 2 if program(words) == "vllm" and words[1:2] == ("serve",) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmAdapter:
    """See `EngineAdapter`."""

    name: str = "vllm"
    ready_deadline_s: float = 1800.0
    hang_s: float = 120.0
    drain_s: float = 20.0
    facts: EngineFacts = NO_FACTS

    def knowing(self, facts: EngineFacts) -> Self:
        """Flags of a file count where the command does not name them."""
        return replace(self, facts=facts)

    def recognises(self, command: Command) -> bool:
        """`vllm serve` and its older and containerised forms, at any place."""
        return find_engine(command, starts) is not None

    def config_file(self, command: Command) -> str | None:
        """The value of `--config`."""
        return self._own_flags(command).value("--config")

    def help_command(self, command: Command) -> Command | None:
        """None: every version has `--speculative-config`, and its help does not list the keys."""
        del command
        return None

    def prepared(self, command: Command, *, max_concurrency: int) -> Prepared:
        """The command as it is: vLLM's limits do not depend on the setting. It must count, though."""
        del max_concurrency
        if self._flags(command).has("--disable-log-stats"):
            raise ConfigError(
                "serve command: `the counters of speculation are kept` must hold, --disable-log-stats "
                "switches them off; leave it out."
            )
        return Prepared(command=command)

    def methods(self, command: Command) -> tuple[str, ...]:
        """The command's own method; n-gram needs no draft model."""
        own = self.base_config(command)
        return ("ngram",) if own.is_off else tuple(dict.fromkeys((own.method, "ngram")))

    def base_config(self, command: Command) -> SpecConfig:
        """The setting of `--speculative-config`; off when there is none."""
        return vllm_config.config_of(self._flags(command))

    def check(self, command: Command, config: SpecConfig) -> str:
        """Chains only; a draft model where the method needs one; the LoRA rule on batch tokens."""
        if config.is_off:
            return ""
        if config.method not in vllm_config.METHODS:
            return f"vLLM has no method {config.method!r}; it has {', '.join(sorted(vllm_config.METHODS))}."
        if config.topk > 1:
            return f"`topk = 1` must hold, got {config.topk}: vLLM drafts chains only."
        if config.num_steps > vllm_config.MAX_TOKENS:
            return f"`num_steps <= {vllm_config.MAX_TOKENS}` must hold, got {config.num_steps}."
        flags = self._flags(command)
        if config.method in vllm_config.NEED_MODEL and not vllm_config.asked(flags).get("model"):
            return f"{config.method} needs `model` in --speculative-config; the serve command has none."
        return _lora_obstacle(flags, config)

    def command_for(self, command: Command, config: SpecConfig) -> Command:
        """The command with its speculative configuration taken out and `config`'s put after the last word."""
        return vllm_config.changed(self._flags(command), config)

    def launch_args(self, command: Command, config: SpecConfig) -> tuple[str, ...]:
        """`--speculative-config` with the command's own keys and `config`'s."""
        return vllm_config.setting_flags(self._flags(command), config)

    def check_schedule(self, command: Command, config: SpecConfig, schedule: Schedule) -> str:
        """Any that drafts somewhere, but not under data parallelism, where vLLM drops it with a warning."""
        if config.is_off:
            return f"schedule {schedule.label}: `some range drafts` must hold, none does."
        if "data-parallel" in self.traits(command, config):
            return "vLLM drops num_speculative_tokens_per_batch_size under data parallelism."
        return self.check(command, config)

    def scheduled(self, command: Command, config: SpecConfig, schedule: Schedule, file: str) -> Scheduled:
        """`num_speculative_tokens_per_batch_size` beside the most tokens; no file is needed."""
        del file
        rows = batch_size_rows(schedule)
        return Scheduled(command=vllm_config.changed(self._flags(command), config, rows))

    def refusal(self, log: str) -> str:
        """Its "… Disabling num_speculative_tokens_per_batch_size …" (0.32, source)."""
        return vllm_answers.schedule_refusal(log)

    def with_flags(self, command: Command, flags: tuple[str, ...]) -> Command:
        """The lever's flags after the last word, the command's own of any of their names taken out."""
        return self._own_flags(command).with_words(lever_words(self.name, flags), aliases_of(self.name))

    def limit_flags(self, max_running_requests: int) -> tuple[str, ...]:
        """The engine's own limit."""
        return (_MAX_SEQS, str(max_running_requests))

    def traits(self, command: Command, config: SpecConfig) -> frozenset[str]:
        """Method, schedule, parallelism."""
        flags = self._flags(command)
        found = {f"method:{config.method}"} | (set() if config.is_off else {"speculation"})
        if "num_speculative_tokens_per_batch_size" in vllm_config.asked(flags):
            found.add("schedule")
        if (flags.number("--data-parallel-size", "-dp") or 1) > 1:
            found.add("data-parallel")
        if (flags.number("--pipeline-parallel-size", "-pp") or 1) > 1:
            found.add("pipeline-parallel")
        if _is_beyond_graphs(flags, config):
            found.add("beyond-graphs")
        return frozenset(found)

    def endpoint(self, command: Command) -> Endpoint:
        """From `--host`, `--port` and `--api-key`, or the container's published port."""
        return endpoint_of(self._flags(command), default_port=8000)

    def generation_request(self, model: str) -> HttpRequest:
        """A tiny completion."""
        return openai.completion_probe(model)

    def read_generation(self, body: str) -> int:
        """Its output tokens."""
        return openai.read_completion(body)

    def settings_requests(self) -> tuple[HttpRequest, ...]:
        """Version, capacity and model; the speculative settings are in the log only."""
        paths = ("/version", "/metrics", "/v1/models")
        return tuple(HttpRequest(method="GET", path=path) for path in paths)

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        """See `vllm_answers.read_settings`."""
        flags = self._flags(command)
        asked = vllm_config.asked(flags)
        declared = {
            name: flags.value(flag) or "True"
            for name, flag in vllm_answers.COVARIATES.items()
            if flags.has(flag) and name != "enable_prefix_caching"
        }
        if flags.has("--enable-prefix-caching", "--no-enable-prefix-caching"):
            declared["enable_prefix_caching"] = ""
        max_seqs = flags.value(_MAX_SEQS)
        if max_seqs is not None:
            declared["max_num_seqs"] = max_seqs
        method = vllm_config.method_of(asked) if asked else ""
        found = vllm_answers.read_settings(answers, log, asked_method=method, declared=declared)
        rows = None if vllm_answers.schedule_refusal(log) else vllm_config.schedule_rows(flags)
        return replace(found, schedule=read_batch_size_rows(rows, most=found.config.num_steps))

    def counters_request(self) -> HttpRequest:
        """`/metrics`."""
        return HttpRequest(method="GET", path="/metrics")

    def read_counters(self, body: str, config: SpecConfig) -> SpecCounters | None:
        """The `vllm:spec_decode_*` counters, per position."""
        del config
        return vllm_answers.read_counters(body)

    def compilations(self, log: str) -> int:
        """Its JIT monitor's warnings while it serves (0.26, transcript), and captured graphs."""
        return len(_COMPILES.findall(log))

    def flush_request(self) -> HttpRequest | None:
        """None: `/reset_prefix_cache` is there in development mode only; prompts never repeat in an arm."""
        return None

    def diagnose(self, traces: ServerTraces) -> Diagnosis:
        """Its own texts (source); the root cause stands above "Engine core initialization failed"."""
        return diagnose(traces, _SIGNS)

    def with_less_memory(self, command: Command, log: str) -> Prepared | None:
        """A `--gpu-memory-utilization` lower by 0.05, unless the cache was too small already."""
        flags = self._flags(command)
        fraction = flags.share(_UTILIZATION)
        fraction = _DEFAULT_UTILIZATION if fraction is None else fraction
        is_fixed = flags.has("--kv-cache-memory-bytes", "--kv-cache-memory")
        if is_fixed or fraction - _LESS_MEMORY < _LEAST_UTILIZATION or _TOO_LITTLE.search(log):
            return None
        lower = f"{fraction - _LESS_MEMORY:.3g}"
        removed = flags.places(_UTILIZATION)
        return Prepared(
            command=flags.words.changed(removed, (_UTILIZATION, lower)),
            notes=(f"{_UTILIZATION} {lower} instead of {fraction:.3g}, after it ran out of memory",),
        )

    def _own_flags(self, command: Command) -> Flags:
        return Flags(words=engine_words(command, starts, "vLLM"), rule=_RULE)

    def _flags(self, command: Command) -> Flags:
        flags = self._own_flags(command)
        path = flags.value("--config")
        if path is None or not self.facts.config_text:
            return flags
        return replace(flags, file=file_arguments(self.facts.config_text, path))


def _is_beyond_graphs(flags: Flags, config: SpecConfig) -> bool:
    """Whether the largest batch verifies more tokens than CUDA graphs are captured for.

    vLLM captures up to min(2 · max_num_seqs · (num_steps + 1), 512) tokens (0.26.0, log and source).
    """
    seqs = flags.number(_MAX_SEQS)
    if config.is_off or seqs is None or flags.has("--enforce-eager", *_GRAPH_FLAGS):
        return False
    return seqs * config.num_draft_tokens > (flags.number(_MAX_CAPTURE) or _DEFAULT_MAX_CAPTURE)


def _lora_obstacle(flags: Flags, config: SpecConfig) -> str:
    """With LoRA every sequence's verified tokens must fit into one batch (0.32, source)."""
    seqs, tokens = flags.number(_MAX_SEQS), flags.number("--max-num-batched-tokens")
    if not flags.has("--enable-lora") or seqs is None or tokens is None:
        return ""
    needed = seqs * config.num_draft_tokens
    if tokens >= needed:
        return ""
    return (
        f"with LoRA `max_num_batched_tokens >= max_num_seqs · (num_steps + 1)` must hold: {tokens} < {needed}"
    )
