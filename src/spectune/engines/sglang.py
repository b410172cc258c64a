"""The dialect of SGLang 0.5.9 to 0.5.23.

Proved on one H200: 0.5.17, whole studies with EAGLE-3 chains and a schedule, and by transcript (settings,
counters, flush, failures). The rest is read from the source of 0.5.9 to 0.5.23: n-gram and draft-model flags,
trees, config files, other versions.
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
from spectune.engines import openai, sglang_flags, sglang_schedule
from spectune.engines.adapter import NO_FACTS, Diagnosis, EngineFacts, Prepared, Scheduled, ServerTraces
from spectune.engines.arguments import Flags
from spectune.engines.failure import OUT_OF_MEMORY, SIGNS, Sign, diagnose
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.levers import aliases_of, lever_words
from spectune.engines.publishing import endpoint_of
from spectune.engines.schedule_forms import adaptive_json
from spectune.engines.sglang_answers import COVARIATES, read_counters, read_server_info
from spectune.engines.words import engine_words, is_in_container
from spectune.engines.yaml_arguments import file_arguments

SPECULATIVE_MAX_RUNNING = 48
"""What SGLang silently takes under speculation where the command names no limit."""

_MAX_RUNNING = "--max-running-requests"
_MEM_FRACTION = "--mem-fraction-static"
_TREE_BACKENDS = frozenset({"flashinfer", "fa3", "triton"})
_LESS_MEMORY = 0.05
_LEAST_FRACTION = 0.3
_TOO_LITTLE = re.compile(
    r"increase --mem-fraction-static|leave no GPU memory for the KV cache|Not enough GPU memory for hybrid"
    r"|state cache is too small"
)
_OWN_KILL = re.compile(r"Received sigquit from a child process|kill_process_tree called")
_COMPILES = re.compile(r"Capture .* CUDA graph begin|Built adaptive runtime state|JIT [Cc]ompil")
_SIGNS = (
    Sign(
        pattern=re.compile(r"leave no GPU memory for the KV cache"),
        kind="out_of_memory",
        next_step="Raise --mem-fraction-static to more than the message names.",
    ),
    Sign(
        pattern=_TOO_LITTLE,
        kind="out_of_memory",
        next_step="Raise --mem-fraction-static to what the message names, or lower --max-running-requests.",
    ),
    Sign(
        pattern=re.compile(r"Capture cuda graph failed|set --mem-fraction-static to a smaller value"),
        kind="out_of_memory",
        next_step="Lower --mem-fraction-static or --cuda-graph-max-bs.",
    ),
    Sign(
        pattern=OUT_OF_MEMORY,
        kind="out_of_memory",
        next_step="Lower --mem-fraction-static or --max-running-requests, or try fewer draft tokens.",
    ),
    Sign(
        pattern=re.compile(
            r"Repo id must be in the form|is not a valid model identifier|RepositoryNotFoundError"
            r"|does not appear to have a file named config\.json|Can't load the configuration of"
        ),
        kind="missing_draft",
        next_step="Correct --speculative-draft-model-path (or --model-path): nothing is found there.",
    ),
    Sign(
        pattern=re.compile(
            r"shared logits buffer holds|only supports? topk ?[=<]|does not support speculative"
            r"|Unknown speculative algorithm|speculative decoding (?:is|with .*) not supported"
            r"|NotImplementedError"
        ),
        kind="unsupported",
        next_step="This combination cannot run in this version; leave the setting out.",
    ),
    *SIGNS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangAdapter:
    """See `EngineAdapter`."""

    name: str = "sglang"
    ready_deadline_s: float = 1800.0
    hang_s: float = 120.0
    drain_s: float = 30.0
    facts: EngineFacts = NO_FACTS

    def knowing(self, facts: EngineFacts) -> Self:
        """Flags of a file count where the command does not name them; `--help` and version bound the rest."""
        return replace(self, facts=facts)

    def recognises(self, command: Command) -> bool:
        """`python -m sglang.launch_server` or `sglang serve`, at any place."""
        return sglang_flags.recognises(command)

    def config_file(self, command: Command) -> str | None:
        """The value of `--config`."""
        return self._own_flags(command).value("--config")

    def help_command(self, command: Command) -> Command | None:
        """The command with `--help` alone; not in a container or a shell's text, which would do more."""
        words = engine_words(command, sglang_flags.starts, "SGLang")
        if words.shell_words or is_in_container(command.argv[: words.first]):
            return None
        return words.changed(frozenset(range(len(words.arguments))), ("--help",))

    def prepared(self, command: Command, *, max_concurrency: int) -> Prepared:
        """`--enable-metrics` for the counters, and one limit of running requests for all arms."""
        flags = self._flags(command)
        added: list[str] = []
        notes: list[str] = []
        if not flags.has("--enable-metrics"):
            added.append("--enable-metrics")
            notes.append("--enable-metrics is added in every arm: without it verify steps are not counted")
        if not flags.has(_MAX_RUNNING):
            limit = max(SPECULATIVE_MAX_RUNNING, max_concurrency)
            added += [_MAX_RUNNING, str(limit)]
            notes.append(
                f"{_MAX_RUNNING} {limit} is added in every arm: SGLang takes {SPECULATIVE_MAX_RUNNING} under "
                "speculation and far more without, silently"
            )
        return Prepared(command=flags.words.changed(frozenset(), tuple(added)), notes=tuple(notes))

    def methods(self, command: Command) -> tuple[str, ...]:
        """The command's own method; with a draft model EAGLE-3 is tried, and n-gram needs nothing."""
        own = self.base_config(command)
        if not own.is_off:
            return tuple(dict.fromkeys((own.method, "ngram")))
        has_draft = self._flags(command).has(*sglang_flags.DRAFT_PATHS)
        return ("eagle3", "eagle", "draft_model", "ngram") if has_draft else ("ngram", "eagle")

    def base_config(self, command: Command) -> SpecConfig:
        """The setting of the command's own flags and its file; off when they name no algorithm."""
        return sglang_flags.config_of(self._flags(command))

    def check(self, command: Command, config: SpecConfig) -> str:
        """What this version and these arguments can run together."""
        if config.is_off:
            return ""
        if config.method not in sglang_flags.ALGORITHMS:
            return (
                f"SGLang is tuned here with {', '.join(sglang_flags.ALGORITHMS)}, not with {config.method!r}."
            )
        flags = self._flags(command)
        return self._lacks(config) or _method_obstacle(flags, config) or _tree_obstacle(flags, config)

    def command_for(self, command: Command, config: SpecConfig) -> Command:
        """The command with its speculative flags taken out and `config`'s put after the last argument."""
        return sglang_flags.changed(self._flags(command), config)

    def launch_args(self, command: Command, config: SpecConfig) -> tuple[str, ...]:
        """The setting's flags, all written out."""
        del command
        return sglang_flags.setting_flags(config)

    def check_schedule(self, command: Command, config: SpecConfig, schedule: Schedule) -> str:
        """Chains of EAGLE and EAGLE-3 without what silently disables adaptive mode; see `sglang_schedule`."""
        found = sglang_schedule.obstacle(
            self._flags(command), config, schedule, version=self.facts.version, help_text=self.facts.help_text
        )
        words = self._own_flags(command).words
        if not found and is_in_container(words.command.argv[: words.first]):
            return "the schedule's file, written beside the container, is not seen inside it."
        return found or self.check(command, config)

    def scheduled(self, command: Command, config: SpecConfig, schedule: Schedule, file: str) -> Scheduled:
        """Adaptive mode with one candidate per range, started with the largest."""
        changed = sglang_flags.changed(self._flags(command), config, file=file)
        return Scheduled(command=changed, file_text=adaptive_json(schedule))

    def refusal(self, log: str) -> str:
        """Its "speculative_adaptive disabled: …"."""
        return sglang_schedule.refusal(log)

    def with_flags(self, command: Command, flags: tuple[str, ...]) -> Command:
        """The lever's flags after the last word, the command's own of any of their names taken out."""
        return self._own_flags(command).with_words(lever_words(self.name, flags), aliases_of(self.name))

    def limit_flags(self, max_running_requests: int) -> tuple[str, ...]:
        """The engine's own limit."""
        return (_MAX_RUNNING, str(max_running_requests))

    def traits(self, command: Command, config: SpecConfig) -> frozenset[str]:
        """Method, tree, schedule, parallelism."""
        flags = self._flags(command)
        found = {f"method:{config.method}"} | (set() if config.is_off else {"speculation"})
        if config.topk > 1:
            found.add("topk>1")
        if flags.has("--speculative-adaptive"):
            found.add("schedule")
        if (flags.number("--dp-size", "--data-parallel-size", "--dp") or 1) > 1:
            found.add("data-parallel")
        return frozenset(found)

    def endpoint(self, command: Command) -> Endpoint:
        """From `--host`, `--port` and `--api-key`, or the container's published port."""
        return endpoint_of(self._flags(command), default_port=30000)

    def generation_request(self, model: str) -> HttpRequest:
        """A tiny completion."""
        return openai.completion_probe(model)

    def read_generation(self, body: str) -> int:
        """Its output tokens."""
        return openai.read_completion(body)

    def settings_requests(self) -> tuple[HttpRequest, ...]:
        """`/server_info`, there since 0.5.9 at least."""
        return (HttpRequest(method="GET", path="/server_info"),)

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        """`/server_info`; what the command names itself is a declared covariate."""
        flags = self._flags(command)
        declared = frozenset(name for name in COVARIATES if flags.has(f"--{name.replace('_', '-')}"))
        found = read_server_info(answers[0], declared=declared)
        info = JsonAnswer(answers[0], source="/server_info")
        return replace(found, schedule=sglang_schedule.in_force(info, log, self.facts.schedule_text))

    def counters_request(self) -> HttpRequest:
        """`/metrics`."""
        return HttpRequest(method="GET", path="/metrics")

    def read_counters(self, body: str, config: SpecConfig) -> SpecCounters | None:
        """Of finished requests; None before about 0.5.15, which counts no verify steps."""
        return read_counters(body, config)

    def compilations(self, log: str) -> int:
        """Captured graphs (0.5.17, transcript) and JIT kernels (source)."""
        return len(_COMPILES.findall(log))

    def flush_request(self) -> HttpRequest | None:
        """`POST /flush_cache`; 400 while requests run."""
        return HttpRequest(method="POST", path="/flush_cache")

    def diagnose(self, traces: ServerTraces) -> Diagnosis:
        """SGLang's own texts; it ends itself by SIGKILL, which is then not the kernel's."""
        return diagnose(traces, _SIGNS, own_kill=_OWN_KILL)

    def with_less_memory(self, command: Command, log: str) -> Prepared | None:
        """A `--mem-fraction-static` lower by 0.05, unless the log says that it was too low already."""
        flags = self._flags(command)
        told = re.search(r"mem_fraction_static=(0?\.\d+)", log)
        fraction = flags.share(_MEM_FRACTION) or (float(told[1]) if told else None)
        if fraction is None or fraction - _LESS_MEMORY < _LEAST_FRACTION or _TOO_LITTLE.search(log):
            return None
        lower = f"{fraction - _LESS_MEMORY:.3g}"
        removed = flags.places(_MEM_FRACTION)
        return Prepared(
            command=flags.words.changed(removed, (_MEM_FRACTION, lower)),
            notes=(f"{_MEM_FRACTION} {lower} instead of {fraction:.3g}, after it ran out of memory",),
        )

    def _own_flags(self, command: Command) -> Flags:
        return Flags(words=engine_words(command, sglang_flags.starts, "SGLang"))

    def _flags(self, command: Command) -> Flags:
        flags = self._own_flags(command)
        path = flags.value("--config")
        if path is None or not self.facts.config_text:
            return flags
        return replace(flags, file=file_arguments(self.facts.config_text, path))

    def _lacks(self, config: SpecConfig) -> str:
        if not self.facts.help_text:
            return ""
        used = [word for word in sglang_flags.setting_flags(config) if word.startswith("--")]
        missing = [flag for flag in used if flag not in self.facts.help_text]
        return f"this SGLang's --help does not name {missing[0]}." if missing else ""


def _method_obstacle(flags: Flags, config: SpecConfig) -> str:
    has_draft = flags.has(*sglang_flags.DRAFT_PATHS)
    if config.method in ("eagle3", "draft_model") and not has_draft:
        return f"{config.method} needs --speculative-draft-model-path; the serve command has none."
    if config.method in ("ngram", "draft_model") and flags.has("--enable-dp-attention"):
        return f"{config.method} does not run with --enable-dp-attention."
    if config.method == "ngram" and config.topk > 1:
        return "ngram is tuned here as a chain: `topk = 1` must hold."
    return ""


def _tree_obstacle(flags: Flags, config: SpecConfig) -> str:
    if config.topk == 1:
        return ""
    backend = flags.value("--attention-backend")
    if backend == "trtllm_mha":
        return "--attention-backend trtllm_mha supports topk 1 only."
    if (flags.number("--page-size") or 1) > 1 and backend is not None and backend not in _TREE_BACKENDS:
        return (
            f"topk > 1 with --page-size > 1 runs on {', '.join(sorted(_TREE_BACKENDS))} only, got {backend}."
        )
    if flags.has("--speculative-use-rejection-sampling", "--speculative-use-block-verification"):
        return "rejection sampling and block verification need topk 1."
    return ""
