"""One trial: start → ready → read back → audit → measure every level → stop. Never leaves a server behind."""

from collections.abc import Callable
from dataclasses import dataclass

from spectune.clock import Clock
from spectune.domain.command import Command
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.trial import Trial, TrialOutcome
from spectune.domain.workload import LoadPlan
from spectune.engines.adapter import EngineAdapter
from spectune.launch.launcher import Launcher
from spectune.tuning.progress import Progress
from spectune.workloads.prompts import PromptPool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSetup:
    """What all trials of a study share.

    Attributes:
        adapter: the engine's dialect.
        launcher: how the server is kept.
        command: the user's serve command.
        pool: the workload's prompts.
        concurrency: levels, ascending.
        budget_s: measuring seconds for the whole study; None: no limit.
        max_settings: settings that may come, off included.
        clock: source of time.
    """

    adapter: EngineAdapter
    launcher: Launcher
    command: Command
    pool: PromptPool
    concurrency: tuple[int, ...]
    budget_s: float | None
    max_settings: int
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvents:
    """Who is told what, as it happens.

    Attributes:
        progress: whoever watches.
        keep_plans: called once, when the load plans are fixed, before the first level is measured.
        keep_level: called for each measured level at once, so that nothing measured is lost.
    """

    progress: Progress
    keep_plans: Callable[[tuple[LoadPlan, ...]], None]
    keep_level: Callable[[Trial, LevelMeasurement], None]


class TrialRunner:
    """Runs trials; a callable `Trial → TrialOutcome`."""

    def __init__(self, setup: TrialSetup, events: TrialEvents, plans: tuple[LoadPlan, ...] = ()) -> None:
        """A runner; `plans` are those fixed in an earlier sitting, empty when none were."""
        self._setup = setup
        self._events = events
        self._plans = plans

    @property
    def plans(self) -> tuple[LoadPlan, ...]:
        """The load plans, empty before the first trial fixed them."""
        return self._plans

    def __call__(self, trial: Trial) -> TrialOutcome:
        """Runs one trial; a server that fails is an outcome, not an exception.

        KeyboardInterrupt and SystemExit pass through after the server is stopped.
        """
        raise NotImplementedError(trial)
