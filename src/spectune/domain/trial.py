"""A trial: one launch of a server with one setting, and how it ended."""

from dataclasses import dataclass
from typing import Literal, NewType

from spectune.domain.measurement import LevelMeasurement
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import SpecConfig
from spectune.domain.workload import Part

TrialId = NewType("TrialId", int)
Role = Literal["setting", "baseline", "repeat", "confirm", "refine", "schedule"]
FailureKind = Literal[
    "bad_argument", "port_in_use", "out_of_memory", "memory_held", "unsupported", "missing_draft",
    "driver_error", "crash_at_start", "not_ready", "crash_under_load", "hang", "bad_answer", "request_errors",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """One thing to measure on a running server: a level with one part's prompts."""

    concurrency: int
    part: Part = "search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What the planner asks for.

    Attributes:
        id: number within the study, from 1, in order of launch.
        config: the setting asked for; of a schedule, the chain with its most steps.
        role: why it is run.
        cells: what is measured, in order; empty: every level of the study with the search's prompts.
        schedule: steps by batch size instead of one setting; None for a fixed setting.
        lever: flags set beside the setting, such as "--max-running-requests 34"; "" for none.
    """

    id: TrialId
    config: SpecConfig
    role: Role
    cells: tuple[PlannedCell, ...] = ()
    schedule: Schedule | None = None
    lever: str = ""

    @property
    def is_of_search(self) -> bool:
        """Whether the search proposed it, not what comes after; a baseline with a lever comes after."""
        return self.role in ("setting", "repeat") or (self.role == "baseline" and not self.lever)

    @property
    def label(self) -> str:
        """A short name for tables: 'eagle 3', 'schedule 1-4:3,5-:0', 'off, --max-running-requests 34'."""
        name = self.config.label if self.schedule is None else f"schedule {self.schedule.label}"
        return f"{name}, {self.lever}" if self.lever else name


KeyKind = Literal["requested", "covariate", "capacity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedKey:
    """One key of what a server says it runs.

    Attributes:
        name: the engine's own word.
        value: as text.
        kind: "requested" by the trial (a difference voids it), "covariate" (set explicitly, so equal in
            every arm), or "capacity" (an outcome: reported, never void).
    """

    name: str
    value: str
    kind: KeyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSettings:
    """What the engine says it runs.

    Attributes:
        config: the setting in force.
        max_running_requests: sequences it will run at once; a capacity outcome.
        max_total_num_tokens: tokens its KV cache holds; a capacity outcome.
        engine_version: the engine's own word.
        model: name of the served model, or "".
        reported: further keys the server reports, by kind.
        differs: how this arm had to differ from the others, or "".
        schedule: steps by batch size in force; None where one setting holds for all.
    """

    config: SpecConfig
    max_running_requests: int | None
    max_total_num_tokens: int | None
    engine_version: str
    model: str = ""
    reported: tuple[ReportedKey, ...] = ()
    differs: str = ""
    schedule: Schedule | None = None

    def covariates(self) -> dict[str, str]:
        """The declared covariates by name."""
        return {key.name: key.value for key in self.reported if key.kind == "covariate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """Every level was measured."""

    trial: Trial
    effective: EffectiveSettings
    launch_s: float
    levels: tuple[LevelMeasurement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The server or the load failed; what was measured before is kept.

    Attributes:
        kind: class of failure.
        detail: what happened and what to do next, one or two sentences.
        log_tail: last lines of the server's log, secrets masked.
        effective: what the server said before it failed, if it got that far.
        launch_s: how long it took to get ready, or to fail before it was; None in studies of older versions
            where it never got ready.
        levels: levels measured before the failure.
    """

    trial: Trial
    kind: FailureKind
    detail: str
    log_tail: str
    effective: EffectiveSettings | None
    launch_s: float | None
    levels: tuple[LevelMeasurement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """The combination cannot be run here; it was never launched."""

    trial: Trial
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """It ran, but not what was asked for, so its numbers count for nothing."""

    trial: Trial
    reason: str
    effective: EffectiveSettings
    launch_s: float
    levels: tuple[LevelMeasurement, ...]


TrialOutcome = Completed | Failed | Infeasible | Void


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedTrial:
    """A trial that was cut off by an interruption of the study; resuming measures what is missing.

    Attributes:
        effective: what the server said, if it got that far.
        launch_s: how long it took to get ready, if it got that far.
        levels: levels measured before the interruption.
    """

    trial: Trial
    effective: EffectiveSettings | None
    launch_s: float | None
    levels: tuple[LevelMeasurement, ...]
