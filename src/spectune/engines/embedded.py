"""The dialect of `spectune serve`, the embedded engine. Flags carry SGLang's names and meaning.

The simulated server of `spectune.testing` speaks it too and is recognised by its module name.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Self

from spectune.domain.command import Command, HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import EffectiveSettings
from spectune.engines import openai
from spectune.engines.adapter import NO_FACTS, Diagnosis, EngineFacts, Prepared, Scheduled, ServerTraces
from spectune.engines.failure import OUT_OF_MEMORY, SIGNS, Sign, diagnose
from spectune.engines.flags import flag_value, int_flag, without_flags
from spectune.engines.json_answer import JsonAnswer
from spectune.engines.levers import lever_words
from spectune.engines.prometheus import Sample, parse_metrics, per_position, total, whole
from spectune.errors import ConfigError, ProtocolError

ALGORITHMS = {"eagle": "EAGLE", "draft_model": "STANDALONE", "ngram": "NGRAM"}
METHODS = {algorithm: method for method, algorithm in ALGORITHMS.items()} | {"EAGLE3": "eagle"}
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 30000
DEFAULT_NUM_STEPS = 3

_ALGORITHM = "--speculative-algorithm"
_NUM_STEPS = "--speculative-num-steps"
_TOPK = "--speculative-eagle-topk"
_NUM_DRAFT_TOKENS = "--speculative-num-draft-tokens"
_SCHEDULE = "--speculative-schedule"
_SPECULATIVE = frozenset({_ALGORITHM, _NUM_STEPS, _TOPK, _NUM_DRAFT_TOKENS, _SCHEDULE})
_SIGNS = (
    Sign(
        pattern=OUT_OF_MEMORY,
        kind="out_of_memory",
        next_step="Lower --max-running-requests or --kv-cache-mib, or try fewer draft tokens.",
    ),
    *SIGNS,
)
_MODULES = (("-m", "spectune", "serve"), ("-m", "spectune.testing.simulated_server"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedAdapter:
    """See `EngineAdapter`."""

    name: str = "embedded"
    ready_deadline_s: float = 60.0
    hang_s: float = 20.0
    drain_s: float = 10.0
    facts: EngineFacts = NO_FACTS

    def knowing(self, facts: EngineFacts) -> Self:
        """Nothing is to be learnt: it is of this version and reads no file."""
        return replace(self, facts=facts)

    def recognises(self, command: Command) -> bool:
        """`spectune serve`, `python -m spectune serve` or the simulated server, at any place."""
        return any(_starts_engine(command.argv[place:]) for place in range(len(command.argv)))

    def config_file(self, command: Command) -> str | None:
        """It reads none."""
        del command
        return None

    def help_command(self, command: Command) -> Command | None:
        """It is of this version; nothing is to be learnt."""
        del command
        return None

    def prepared(self, command: Command, *, max_concurrency: int) -> Prepared:
        """The command as it is: its limits do not depend on the setting."""
        del max_concurrency
        return Prepared(command=command)

    def methods(self, command: Command) -> tuple[str, ...]:
        """The command's own method, then the others; the bundled drafts are always there."""
        own = self.base_config(command).method
        return tuple(sorted(ALGORITHMS, key=lambda method: method != own))

    def base_config(self, command: Command) -> SpecConfig:
        """The setting of the command's own flags; off when it names no algorithm."""
        algorithm = flag_value(command.argv, _ALGORITHM)
        if algorithm is None:
            return OFF
        method = METHODS.get(algorithm.upper())
        if method is None:
            raise ConfigError(
                f"serve command: `{_ALGORITHM}` must be one of {', '.join(METHODS)}, got {algorithm!r}."
            )
        schedule = flag_value(command.argv, _SCHEDULE)
        if schedule is not None:
            return SpecConfig.chain(method, Schedule.parse(schedule).max_steps)
        num_steps = int_flag(command.argv, _NUM_STEPS)
        topk = int_flag(command.argv, _TOPK)
        draft_tokens = int_flag(command.argv, _NUM_DRAFT_TOKENS)
        return _config(method, num_steps, topk, draft_tokens)

    def check(self, command: Command, config: SpecConfig) -> str:
        """Knows its methods; n-gram drafts are chains."""
        del command
        if not config.is_off and config.method not in ALGORITHMS:
            return f"the embedded engine has no method {config.method!r}; it has {', '.join(ALGORITHMS)}."
        if config.method == "ngram" and config.topk > 1:
            return f"`topk = 1` must hold for ngram, whose drafts are chains, got {config.topk}."
        return ""

    def command_for(self, command: Command, config: SpecConfig) -> Command:
        """The command with its speculative flags taken out and `config`'s put at the end."""
        return Command(
            argv=without_flags(command.argv, _SPECULATIVE) + self.launch_args(command, config),
            env=command.env,
        )

    def launch_args(self, command: Command, config: SpecConfig) -> tuple[str, ...]:
        """All four flags, written out; none for off."""
        del command
        if config.is_off:
            return ()
        return (
            _ALGORITHM, ALGORITHMS[config.method],
            _NUM_STEPS, str(config.num_steps),
            _TOPK, str(config.topk),
            _NUM_DRAFT_TOKENS, str(config.num_draft_tokens),
        )  # fmt: skip

    def check_schedule(self, command: Command, config: SpecConfig, schedule: Schedule) -> str:
        """Any schedule of chains of any method that drafts somewhere."""
        if config.topk > 1 or config.is_off:
            return f"`chains are drafted` must hold for schedule {schedule.label}, got {config.label}."
        return self.check(command, config)

    def scheduled(self, command: Command, config: SpecConfig, schedule: Schedule, file: str) -> Scheduled:
        """`--speculative-schedule`; no file is needed."""
        del file
        argv = without_flags(command.argv, _SPECULATIVE)
        words = (_ALGORITHM, ALGORITHMS[config.method], _SCHEDULE, schedule.label)
        return Scheduled(command=Command(argv=argv + words, env=command.env))

    def refusal(self, log: str) -> str:
        """It refuses none."""
        del log
        return ""

    def with_flags(self, command: Command, flags: tuple[str, ...]) -> Command:
        """The lever's flags at the end, the command's own of their names taken out."""
        words = lever_words(self.name, flags)
        names = frozenset(words[::2])  # every lever of it has a value
        return Command(argv=without_flags(command.argv, names) + words, env=command.env)

    def limit_flags(self, max_running_requests: int) -> tuple[str, ...]:
        """`--max-running-requests`."""
        return ("--max-running-requests", str(max_running_requests))

    def traits(self, command: Command, config: SpecConfig) -> frozenset[str]:
        """None; no bug of it is catalogued."""
        del command, config
        return frozenset()

    def endpoint(self, command: Command) -> Endpoint:
        """From `--host`, `--port` and `--api-key`, with the engine's own defaults."""
        port = int_flag(command.argv, "--port")
        port = DEFAULT_PORT if port is None else port
        if not 0 < port < 65536:
            raise ConfigError(f"serve command: `0 < --port < 65536` must hold, got {port}.")
        host = flag_value(command.argv, "--host") or DEFAULT_HOST
        return Endpoint(host=host, port=port, api_key=flag_value(command.argv, "--api-key") or "")

    def generation_request(self, model: str) -> HttpRequest:
        """A tiny completion."""
        return openai.completion_probe(model)

    def read_generation(self, body: str) -> int:
        """Its output tokens."""
        return openai.read_completion(body)

    def settings_requests(self) -> tuple[HttpRequest, ...]:
        """`/server_info`."""
        return (HttpRequest(method="GET", path="/server_info"),)

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        """The top level of `/server_info`; nothing else is needed."""
        del command, log
        info = JsonAnswer(answers[0], source="/server_info")
        return EffectiveSettings(
            config=_effective_config(info),
            max_running_requests=info.optional_int("max_running_requests"),
            max_total_num_tokens=info.optional_int("max_total_num_tokens"),
            engine_version=info.optional_text("version") or "",
            model=info.optional_text("model_path") or "",
            schedule=_effective_schedule(info),
        )

    def counters_request(self) -> HttpRequest:
        """`/metrics`."""
        return HttpRequest(method="GET", path="/metrics")

    def read_counters(self, body: str, config: SpecConfig) -> SpecCounters | None:
        """The `spectune:*_total` counters."""
        del config
        samples = parse_metrics(body)
        return SpecCounters(
            verify_steps=_counter(samples, "spectune:verify_steps_total"),
            undrafted_steps=_counter(samples, "spectune:undrafted_steps_total"),
            drafted_tokens=_counter(samples, "spectune:drafted_tokens_total"),
            accepted_tokens=_counter(samples, "spectune:accepted_tokens_total"),
            accepted_per_position=per_position(samples, "spectune:accepted_tokens_per_position_total"),
            generated_tokens=_counter(samples, "spectune:generated_tokens_total"),
        )

    def compilations(self, log: str) -> int:
        """None is told: nothing is compiled while it serves."""
        del log
        return 0

    def flush_request(self) -> HttpRequest | None:
        """`POST /flush_cache`."""
        return HttpRequest(method="POST", path="/flush_cache")

    def diagnose(self, traces: ServerTraces) -> Diagnosis:
        """The common signs, and its own flags where memory is short."""
        return diagnose(traces, _SIGNS)

    def with_less_memory(self, command: Command, log: str) -> Prepared | None:
        """It has no memory fraction."""
        del command, log
        return None


def _starts_engine(words: tuple[str, ...]) -> bool:
    if any(words[: len(module)] == module for module in _MODULES):
        return True
    return len(words) > 1 and PurePosixPath(words[0]).name == "spectune" and words[1] == "serve"


def _config(method: str, num_steps: int | None, topk: int | None, draft_tokens: int | None) -> SpecConfig:
    """The setting these flags mean: for chains `num_draft_tokens` and `num_steps` set each other."""
    topk = 1 if topk is None else topk
    if num_steps is None:
        num_steps = DEFAULT_NUM_STEPS if draft_tokens is None or topk > 1 else draft_tokens - 1
    if topk == 1 or draft_tokens is None:
        draft_tokens = num_steps + 1
    return SpecConfig(method=method, num_steps=num_steps, topk=topk, num_draft_tokens=draft_tokens)


def _effective_config(info: JsonAnswer) -> SpecConfig:
    if not info.has("speculative_algorithm"):
        raise ProtocolError("/server_info: `speculative_algorithm` must be there; it is missing.")
    algorithm = info.optional_text("speculative_algorithm")
    if algorithm is None:
        return OFF
    if algorithm not in METHODS:
        raise ProtocolError(
            f"/server_info: `speculative_algorithm` is {algorithm!r}, which is not known here."
        )
    num_steps = info.optional_int("speculative_num_steps")
    if not num_steps:
        raise ProtocolError(
            f"/server_info: `speculative_num_steps >= 1 under {algorithm}` must hold, got {num_steps}."
        )
    try:
        return SpecConfig(
            method=METHODS[algorithm],
            num_steps=num_steps,
            topk=info.optional_int("speculative_eagle_topk") or 1,
            num_draft_tokens=info.optional_int("speculative_num_draft_tokens") or num_steps + 1,
        )
    except ConfigError as error:
        raise ProtocolError(f"/server_info: {error}") from error


def _effective_schedule(info: JsonAnswer) -> Schedule | None:
    text = info.optional_text("speculative_schedule")
    try:
        return Schedule.parse(text) if text else None
    except ConfigError as error:
        raise ProtocolError(f"/server_info: {error}") from error


def _counter(samples: Iterable[Sample], name: str) -> int:
    value = total(samples, name)
    if value is None:
        raise ProtocolError(f"/metrics: `{name}` must be there; it is missing.")
    return whole(name, value)
