"""The seam to an engine's dialect: which command to run, what to ask, how to read the answers. No I/O.

An adapter is a value with pure methods. Whoever calls it runs the command and makes the requests.
"""

from dataclasses import dataclass
from typing import Protocol, Self

from spectune.domain.command import Command, HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import EffectiveSettings, FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What an ended or silent server's traces say.

    Attributes:
        kind: class of failure.
        cause: one sentence: what happened, with the telling log line.
        next_step: one sentence: what the user can do.
    """

    kind: FailureKind
    cause: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTraces:
    """What is left of a server that failed.

    Attributes:
        exit_status: as `subprocess` gives it (negative: a signal); None while it still runs.
        log_tail: last lines of its log.
        was_ready: whether it had given a real generation before.
    """

    exit_status: int | None
    log_tail: str
    was_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A user's command made ready for trials.

    Attributes:
        command: with what every arm needs set explicitly and equally.
        notes: what was added and why, one line each.
    """

    command: Command
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A command that runs a schedule.

    Attributes:
        command: what to start.
        file_text: what has to be in the file the command names before it starts; "" where it names none.
    """

    command: Command
    file_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What is known of an engine and its files beside the command; "" for what is not.

    Attributes:
        config_text: of the file that the command reads flags from.
        help_text: what `help_command` printed; flags that it does not show are not used.
        version: as a server reported it.
        schedule_text: of the schedule's file, `Scheduled.file_text`; without it none is read back.
    """

    config_text: str = ""
    help_text: str = ""
    version: str = ""
    schedule_text: str = ""


NO_FACTS = EngineFacts()


class EngineAdapter(Protocol):
    """One engine's dialect. Reading methods raise ProtocolError on an answer they cannot read.

    Methods that take a command raise ConfigError when its flags are malformed.
    """

    @property
    def name(self) -> str:
        """The engine's name: "embedded", "sglang", "vllm", "llamacpp"."""

    @property
    def ready_deadline_s(self) -> float:
        """How long a launch may take until the first generation."""

    @property
    def hang_s(self) -> float:
        """How long a server under load may give no byte at all before it counts as hung."""

    @property
    def drain_s(self) -> float:
        """How long its own orderly end may take after SIGTERM."""

    @property
    def facts(self) -> EngineFacts:
        """What it has been told of the engine and its files."""

    def knowing(self, facts: EngineFacts) -> Self:
        """The same dialect, told these facts."""

    def recognises(self, command: Command) -> bool:
        """Whether this command starts this engine."""

    def config_file(self, command: Command) -> str | None:
        """Path of a file the command reads flags from, None when there is none."""

    def help_command(self, command: Command) -> Command | None:
        """What to run to learn which flags the engine has, None when that would not help."""

    def prepared(self, command: Command, *, max_concurrency: int) -> Prepared:
        """The command with the covariates set that must not differ between arms."""

    def methods(self, command: Command) -> tuple[str, ...]:
        """Speculation methods that the command offers as it stands; the first is tried without `--method`."""

    def base_config(self, command: Command) -> SpecConfig:
        """The setting the command asks for as it stands."""

    def check(self, command: Command, config: SpecConfig) -> str:
        """Why the engine cannot run this setting of the command, or "" when it can."""

    def command_for(self, command: Command, config: SpecConfig) -> Command:
        """The command with only its speculative flags changed to `config`."""

    def launch_args(self, command: Command, config: SpecConfig) -> tuple[str, ...]:
        """The flags a user would paste to get `config`; empty for off."""

    def check_schedule(self, command: Command, config: SpecConfig, schedule: Schedule) -> str:
        """Why the engine cannot run this schedule, or "" when it can.

        Args:
            command: as it stands.
            config: the chain with the schedule's most steps; tells the method.
            schedule: steps by batch size.
        """

    def scheduled(self, command: Command, config: SpecConfig, schedule: Schedule, file: str) -> Scheduled:
        """The command that runs a schedule which `check_schedule` lets pass.

        Args:
            command: as it stands.
            config: the chain with the schedule's most steps; tells the method.
            schedule: steps by batch size.
            file: a path on the serving machine that the command may name, where the engine wants a file.
        """

    def refusal(self, log: str) -> str:
        """The engine's own words in its log that it runs something else than asked for; "" where none."""

    def with_flags(self, command: Command, flags: tuple[str, ...]) -> Command:
        """The command with a lever's flags in place of its own of any of their names.

        They may be written as a user writes them: `--name=value`, an alias; raises ConfigError for others.
        """

    def limit_flags(self, max_running_requests: int) -> tuple[str, ...]:
        """Flags that let it run so many requests at once; empty where there is no such flag."""

    def traits(self, command: Command, config: SpecConfig) -> frozenset[str]:
        """What known bugs depend on: words such as "topk>1" or "data-parallel" that hold for this arm."""

    def endpoint(self, command: Command) -> Endpoint:
        """Where the started server will listen."""

    def generation_request(self, model: str) -> HttpRequest:
        """A real, tiny, greedy generation; `model` is "" before it is known."""

    def read_generation(self, body: str) -> int:
        """Output tokens of that generation."""

    def settings_requests(self) -> tuple[HttpRequest, ...]:
        """What to ask to learn the effective settings."""

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        """The effective settings from the answers, in the order of the requests, and the log so far.

        Args:
            command: what was started; tells declared covariates from capacity outcomes.
            answers: to `settings_requests`.
            log: of the server so far.
        """

    def counters_request(self) -> HttpRequest:
        """What to ask for the counters of speculation."""

    def read_counters(self, body: str, config: SpecConfig) -> SpecCounters | None:
        """The counters of a server that runs `config`.

        None where this version of the engine does not count verify steps.
        """

    def compilations(self, log: str) -> int:
        """How often the log says that a kernel was compiled or a graph captured."""

    def flush_request(self) -> HttpRequest | None:
        """Empties the prefix cache of an idle server; None where there is no such request."""

    def diagnose(self, traces: ServerTraces) -> Diagnosis:
        """What went wrong with a server that ended or fell silent."""

    def with_less_memory(self, command: Command, log: str) -> Prepared | None:
        """The command of a server that ran out of memory with a lower memory fraction, and how it differs.

        None where the engine has no such flag or less memory would not help.
        """
