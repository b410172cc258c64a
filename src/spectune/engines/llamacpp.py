"""The dialect of llama.cpp's `llama-server`, and of the same code under `python -m spectune.llama_server`.

Tried against the real server out of the xllamacpp wheel (2026.10.11549) in the tests. Flags are read from the
source of b11434. The draft length is told by no endpoint: it is taken from the command, `/slots` proves that
speculation is on, and the counters that no draft is longer.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Self

from spectune.domain.command import Command, HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import EffectiveSettings, KeyKind, ReportedKey
from spectune.engines import llamacpp_flags, openai
from spectune.engines.adapter import NO_FACTS, Diagnosis, EngineFacts, Prepared, Scheduled, ServerTraces
from spectune.engines.arguments import Flags
from spectune.engines.failure import SIGNS, Sign, diagnose
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.levers import aliases_of, lever_words
from spectune.engines.prometheus import Sample, parse_metrics, per_position, total, whole
from spectune.engines.publishing import endpoint_of
from spectune.engines.words import engine_words, find_engine, is_image, is_in_container, is_module, program
from spectune.errors import ConfigError, ProtocolError

_MANY_SLOTS = 16
_SLOTS = ("-np", "--parallel")
_CONTEXT = ("-c", "--ctx-size")
_GIVEN_UP = "failed to initialize speculative decoding context"
_SIGNS = (
    Sign(
        pattern=re.compile(r"failed to load draft model"),
        kind="missing_draft",
        next_step="Correct --spec-draft-model: no GGUF file that fits the model is there.",
    ),
    Sign(
        pattern=re.compile(r"failed to load model|error loading model"),
        kind="bad_argument",
        next_step="Correct --model: no readable GGUF file is there.",
    ),
    Sign(
        pattern=re.compile(r"couldn't bind|bind\(\) failed|exiting due to HTTP server error"),
        kind="port_in_use",
        next_step="Stop what listens there, or give the serve command another --port.",
    ),
    Sign(
        pattern=re.compile(
            r"failed to allocate (?:\w+ )?buffer|unable to allocate \w+ buffer|cudaMalloc failed"
        ),
        kind="out_of_memory",
        next_step="Lower --ctx-size, --parallel or --n-gpu-layers.",
    ),
    Sign(
        pattern=re.compile(r"error while handling argument|invalid argument:|the argument has been removed"),
        kind="bad_argument",
        next_step="Run the serve command by itself and correct the flag.",
    ),
    *SIGNS,
)


def starts(words: tuple[str, ...]) -> int:
    """`llama-server`, the official image with arguments only, or the runner of the wheel."""
    if is_module(words, "spectune.llama_server"):
        return 2
    if is_image(words, "llama.cpp"):
        return 1
    return 1 if program(words) in ("llama-server", "llama-cpp-server") else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamacppAdapter:
    """See `EngineAdapter`."""

    name: str = "llamacpp"
    ready_deadline_s: float = 600.0
    hang_s: float = 60.0
    drain_s: float = 10.0
    facts: EngineFacts = NO_FACTS

    def knowing(self, facts: EngineFacts) -> Self:
        """`--help` tells builds with `--spec-` flags from older ones."""
        return replace(self, facts=facts)

    def recognises(self, command: Command) -> bool:
        """`llama-server` at any place."""
        return find_engine(command, starts) is not None

    def config_file(self, command: Command) -> str | None:
        """It reads none."""
        del command
        return None

    def help_command(self, command: Command) -> Command | None:
        """The command with `--help` alone; not in a container or a shell's text, which would do more."""
        words = engine_words(command, starts, "llama.cpp")
        if words.shell_words or is_in_container(command.argv[: words.first]):
            return None
        return words.changed(frozenset(range(len(words.arguments))), ("--help",))

    def prepared(self, command: Command, *, max_concurrency: int) -> Prepared:
        """`--metrics` for the counters; a limit on slots below the levels is told, not changed."""
        flags = self._flags(command)
        if flags.has("--no-slots"):
            raise ConfigError(
                "serve command: `/slots tells whether speculation is on` must hold, --no-slots switches it "
                "off; leave it out."
            )
        notes: list[str] = []
        slots = flags.number(*_SLOTS)
        if slots is not None and 0 < slots < max_concurrency:
            notes.append(f"{_SLOTS[1]} {slots} is below the highest level: requests will queue there")
        if flags.has("--metrics"):
            return Prepared(command=command, notes=tuple(notes))
        notes.append("--metrics is added in every arm: without it verify steps are not counted")
        return Prepared(command=flags.words.changed(frozenset(), ("--metrics",)), notes=tuple(notes))

    def methods(self, command: Command) -> tuple[str, ...]:
        """The command's own method; a draft model where there is one; n-gram needs nothing."""
        flags = self._flags(command)
        own = llamacpp_flags.config_of(flags)
        offered = () if own.is_off else (own.method,)
        draft = ("draft_model",) if flags.has(*llamacpp_flags.DRAFT_MODELS) else ()
        return tuple(dict.fromkeys((*offered, *draft, "ngram")))

    def base_config(self, command: Command) -> SpecConfig:
        """The setting of the command's own flags."""
        return llamacpp_flags.config_of(self._flags(command))

    def check(self, command: Command, config: SpecConfig) -> str:
        """What this build and these arguments can run together."""
        if config.is_off:
            return ""
        found = llamacpp_flags.obstacle(self._flags(command), config)
        if found:
            return found
        if self._is_old() and config.method != "draft_model":
            return (
                f"this build has no --spec-type, so {config.method} cannot be run; it has draft models only."
            )
        return ""

    def command_for(self, command: Command, config: SpecConfig) -> Command:
        """The command with its speculative flags taken out and `config`'s put after the last argument."""
        return llamacpp_flags.changed(self._flags(command), config, is_old=self._is_old())

    def launch_args(self, command: Command, config: SpecConfig) -> tuple[str, ...]:
        """The setting's flags."""
        return llamacpp_flags.setting_flags(self._flags(command), config, is_old=self._is_old())

    def check_schedule(self, command: Command, config: SpecConfig, schedule: Schedule) -> str:
        """None: a draft length holds from launch to launch (b11434, source)."""
        del command, config
        return (
            f"llama-server cannot change the draft length while it runs: {schedule.label} needs a launch per "
            "range."
        )

    def scheduled(self, command: Command, config: SpecConfig, schedule: Schedule, file: str) -> Scheduled:
        """The largest step alone; `check_schedule` lets none pass."""
        del schedule, file
        return Scheduled(command=self.command_for(command, config))

    def refusal(self, log: str) -> str:
        """Why it goes on without speculation: its own line (b11434; seen with a draft of the wrong kind)."""
        return next((line.strip() for line in log.splitlines() if _GIVEN_UP in line), "")

    def with_flags(self, command: Command, flags: tuple[str, ...]) -> Command:
        """The lever's flags after the last word, the command's own of any of their names taken out."""
        return self._flags(command).with_words(lever_words(self.name, flags), aliases_of(self.name))

    def limit_flags(self, max_running_requests: int) -> tuple[str, ...]:
        """The engine's own limit."""
        return ("--parallel", str(max_running_requests))

    def traits(self, command: Command, config: SpecConfig) -> frozenset[str]:
        """Method, slots, and where drafts are sampled."""
        found = {f"method:{config.method}"} | (set() if config.is_off else {"speculation"})
        flags = self._flags(command)
        slots = flags.number(*_SLOTS)
        if (slots or 0) >= _MANY_SLOTS:
            found.add("many-slots")
        if slots != 1 and not flags.has("--no-spec-draft-backend-sampling"):
            found.add("drafts-sampled-together")
        return frozenset(found)

    def endpoint(self, command: Command) -> Endpoint:
        """From `--host`, `--port` and `--api-key`, or the container's published port."""
        return endpoint_of(self._flags(command), default_port=8080)

    def generation_request(self, model: str) -> HttpRequest:
        """A tiny completion."""
        return openai.completion_probe(model)

    def read_generation(self, body: str) -> int:
        """Its output tokens."""
        return openai.read_completion(body)

    def settings_requests(self) -> tuple[HttpRequest, ...]:
        """Build, slots and context; per slot whether speculation is on."""
        return tuple(HttpRequest(method="GET", path=path) for path in ("/props", "/slots"))

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        """The command's setting where the slots speculate as it asks; what they do where they do not."""
        del log
        props = JsonAnswer(answers[0], source="/props")
        flags = self._flags(command)
        defaults = props.optional_object("default_generation_settings")
        context = None if defaults is None else defaults.optional_int("n_ctx")
        slots = props.optional_int("total_slots")
        return EffectiveSettings(
            config=_effective(llamacpp_flags.config_of(flags), answers[1]),
            max_running_requests=slots,
            max_total_num_tokens=None if context is None or slots is None else context * slots,
            engine_version=props.optional_text("build_info") or "",
            model=props.optional_text("model_alias") or props.optional_text("model_path") or "",
            reported=(
                _key("n_parallel", slots, flags.has(*_SLOTS)),
                _key("n_ctx_per_slot", context, flags.has(*_CONTEXT)),
            ),
        )

    def counters_request(self) -> HttpRequest:
        """`/metrics`."""
        return HttpRequest(method="GET", path="/metrics")

    def read_counters(self, body: str, config: SpecConfig) -> SpecCounters | None:
        """See `read_metrics`; builds without these counters give none."""
        del config
        return read_metrics(body)

    def compilations(self, log: str) -> int:
        """None is told: nothing is compiled while it serves."""
        del log
        return 0

    def flush_request(self) -> HttpRequest | None:
        """None: there is no such request; prompts never repeat in an arm."""
        return None

    def diagnose(self, traces: ServerTraces) -> Diagnosis:
        """llama.cpp's own texts."""
        return diagnose(traces, _SIGNS)

    def with_less_memory(self, command: Command, log: str) -> Prepared | None:
        """It has no memory fraction."""
        del command, log
        return None

    def _flags(self, command: Command) -> Flags:
        return Flags(words=engine_words(command, starts, "llama.cpp"), rule=llamacpp_flags.RULE)

    def _is_old(self) -> bool:
        return bool(self.facts.help_text) and llamacpp_flags.DRAFT_MAX not in self.facts.help_text


def read_metrics(body: str) -> SpecCounters | None:
    """The counters of `/metrics`; None where a build does not have those of speculation.

    Requests are not counted, so each one's first token, which comes from prefill, counts as an undrafted
    step (about 1 % on 100 tokens). Where drafts are not counted, verify steps = predicted − accepted, an
    upper bound.
    """
    samples = parse_metrics(body)
    predicted = total(samples, "llamacpp:tokens_predicted_total")
    if predicted is None:
        raise ProtocolError(
            "/metrics: `llamacpp:tokens_predicted_total` must be there; it is missing. Start the server with "
            "--metrics."
        )
    drafted = _count(samples, "llamacpp:spec_decode_num_draft_tokens_total")
    accepted = _count(samples, "llamacpp:spec_decode_num_accepted_tokens_total")
    if drafted is None or accepted is None:
        return None
    generated = whole("llamacpp:tokens_predicted_total", predicted)
    drafts = _count(samples, "llamacpp:spec_decode_num_drafts_total")
    if drafts is None:
        drafts = generated - accepted if drafted else 0
    return SpecCounters(
        verify_steps=drafts,
        undrafted_steps=generated - accepted - drafts,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        accepted_per_position=per_position(samples, "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"),
        generated_tokens=generated,
    )


def _count(samples: tuple[Sample, ...], name: str) -> int | None:
    value = total(samples, name)
    return None if value is None else whole(name, value)


def _effective(asked: SpecConfig, slots: str) -> SpecConfig:
    try:
        found: object = json.loads(slots)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(slot, dict) for slot in found):
        raise ProtocolError(f"/slots: `a list of slots` must come, got {slots[:120]!r}.")
    told = {slot.get("speculative") for slot in found}
    if told == {False}:
        return OFF
    if told != {True}:
        raise ProtocolError(f"/slots: `each slot says the same of speculative` must hold, got {told}.")
    return SpecConfig.chain("unknown", 1) if asked.is_off else asked


def _key(name: str, value: int | None, is_declared: bool) -> ReportedKey:  # noqa: FBT001  (one place)
    kind: KeyKind = "covariate" if is_declared else "capacity"
    return ReportedKey(name=name, value=str(value), kind=kind)
