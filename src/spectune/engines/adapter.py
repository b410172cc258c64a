"""The seam to an engine's dialect: which command to run, what to ask, how to read the answers. No I/O.

An adapter is a value with pure methods. Whoever calls it runs the command and makes the requests.
"""

from dataclasses import dataclass
from typing import Protocol

from spectune.domain.command import Command, HttpRequest
from spectune.domain.endpoint import Endpoint
from spectune.domain.measurement import SpecCounters
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


class EngineAdapter(Protocol):
    """One engine's dialect. Reading methods raise ProtocolError on an answer they cannot read."""

    @property
    def name(self) -> str:
        """The engine's name: "embedded", "sglang", "vllm", "llamacpp"."""

    @property
    def ready_deadline_s(self) -> float:
        """How long a launch may take until the first generation."""

    def recognises(self, command: Command) -> bool:
        """Whether this command starts this engine."""

    def base_config(self, command: Command) -> SpecConfig:
        """The setting the command asks for as it stands; raises ConfigError when it is malformed."""

    def check(self, config: SpecConfig) -> str:
        """Why the engine cannot run this setting, or "" when it can."""

    def command_for(self, command: Command, config: SpecConfig) -> Command:
        """The command with only its speculative flags changed to `config`."""

    def launch_args(self, config: SpecConfig) -> tuple[str, ...]:
        """The flags a user would paste to get `config`; empty for off."""

    def endpoint(self, command: Command) -> Endpoint:
        """Where the started server will listen; raises ConfigError when the command says it badly."""

    def generation_request(self, model: str) -> HttpRequest:
        """A real, tiny, greedy generation; `model` is "" before it is known."""

    def read_generation(self, body: str) -> int:
        """Output tokens of that generation."""

    def settings_requests(self) -> tuple[HttpRequest, ...]:
        """What to ask to learn the effective settings."""

    def read_settings(self, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        """The effective settings from the answers, in the order of the requests, and the log so far."""

    def counters_request(self) -> HttpRequest:
        """What to ask for the counters of speculation."""

    def read_counters(self, body: str) -> SpecCounters:
        """The counters."""

    def flush_request(self) -> HttpRequest | None:
        """Empties the prefix cache of an idle server; None where there is no such request."""

    def diagnose(self, traces: ServerTraces) -> Diagnosis:
        """What went wrong with a server that ended or fell silent."""
