"""One trial: start → ready → read back → audit → measure every level → stop. Never leaves a server behind."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

from spectune.clock import Clock
from spectune.domain.command import Command
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    Failed,
    FailureKind,
    Infeasible,
    Trial,
    TrialOutcome,
    Void,
)
from spectune.domain.workload import LoadPlan
from spectune.engines.adapter import EngineAdapter, Scheduled
from spectune.engines.known_bugs import KnownBug, bugs_in_log
from spectune.engines.levers import check_lever, lever_differs
from spectune.errors import (
    EngineExited,
    EngineNotReady,
    LaunchError,
    LoadError,
    PortInUse,
    ProtocolError,
    ServerUnreachable,
    SpectuneError,
)
from spectune.launch.foreign_cpu import CpuReader, read_cpu
from spectune.launch.launcher import Launcher, RunningServer
from spectune.launch.memory import MemoryReader, MemoryWatch, nothing_read
from spectune.launch.readiness import wait_until_ready
from spectune.loadgen.usage_mode import find_load_target
from spectune.metrics.foreign_traffic import foreign_requests
from spectune.metrics.summary import is_disturbed, settle_levels
from spectune.tuning.audit import covariates_differ, settings_differ, speculation_differs
from spectune.tuning.bench import Bench, ended, generation_probe, post_mortem, read_effective
from spectune.tuning.plan_book import PlanBook
from spectune.tuning.progress import Progress
from spectune.tuning.repeat_policy import RepeatPolicy
from spectune.tuning.trial_failure import TrialFailed, TrialVoid, masked, tail
from spectune.workloads.prompts import PromptPool

_WORD = re.compile(r"[\w.]+")


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
        hang_s: how long a server under load may give no event at all.
        read_cpu: tells CPU time, ours and all.
        is_shared: whether others may reach the server too, so that foreign requests are looked for.
        read_memory: tells the serving machine's free memory.
        search_share: share of the prompts the search may use; the rest are fresh for what comes after.
    """

    adapter: EngineAdapter
    launcher: Launcher
    command: Command
    pool: PromptPool
    concurrency: tuple[int, ...]
    budget_s: float | None
    max_settings: int
    clock: Clock
    hang_s: float = 20.0
    read_cpu: CpuReader = read_cpu
    is_shared: bool = False
    read_memory: MemoryReader = nothing_read
    search_share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvents:
    """Who is told what, as it happens.

    Attributes:
        progress: whoever watches.
        keep_plans: called when load plans are fixed, before the first of them is sent.
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
        self._book = PlanBook(setup.pool, setup.concurrency, plans, events.keep_plans)
        self._repeats = RepeatPolicy()
        self._memory = MemoryWatch(setup.read_memory, setup.clock)
        self._covariates: dict[str, str] = {}

    @property
    def plans(self) -> tuple[LoadPlan, ...]:
        """The load plans, empty before the first trial fixed them."""
        return self._book.plans

    def __call__(self, trial: Trial) -> TrialOutcome:
        """Runs one trial; a server that fails is an outcome, not an exception.

        KeyboardInterrupt and SystemExit pass through after the server is stopped.

        Raises:
            ConfigError: the command or the workload cannot be used for any trial.
            LaunchError: the server would not go away.
        """
        reason = obstacle(self._setup.adapter, self._setup.command, trial)
        if reason:
            return Infeasible(trial=trial, reason=reason)
        outcome = self._run(trial)
        self._events.progress.trial_done(outcome)
        return outcome

    def _run(self, trial: Trial) -> TrialOutcome:
        """One launch; a second one with less memory where the first had none left before any level."""
        command, name = self._command_of(trial), name_of(trial)
        scheduled = self._scheduled(trial, command, name)
        self._events.progress.trial_started(trial)
        sitting = _Sitting(self, trial, scheduled, name)
        outcome = sitting.run()
        if not (isinstance(outcome, Failed) and outcome.kind == "out_of_memory" and not outcome.levels):
            return outcome
        smaller = self._setup.adapter.with_less_memory(scheduled.command, sitting.log)
        if smaller is None:
            return outcome
        self._events.progress.trial_started(trial)
        name = f"{name}-less-memory"
        scheduled = self._scheduled(trial, smaller.command, name)
        return _Sitting(self, trial, scheduled, name, differs="; ".join(smaller.notes)).run()

    def _command_of(self, trial: Trial) -> Command:
        """The study's command with the trial's lever."""
        if not trial.lever:
            return self._setup.command
        return self._setup.adapter.with_flags(self._setup.command, tuple(shlex.split(trial.lever)))

    def _scheduled(self, trial: Trial, command: Command, name: str) -> Scheduled:
        """What to start for the trial, with the text of the file that a schedule may need."""
        adapter = self._setup.adapter
        if trial.schedule is None:
            return Scheduled(command=adapter.command_for(command, trial.config))
        return adapter.scheduled(command, trial.config, trial.schedule, self._setup.launcher.file_for(name))

    def _note_version(self, effective: EffectiveSettings) -> None:
        """What the engine can run may depend on its version, which only a server tells."""
        facts = replace(self._setup.adapter.facts, version=effective.engine_version)
        self._setup = replace(self._setup, adapter=self._setup.adapter.knowing(facts))

    def _check_covariates(self, trial: Trial, effective: EffectiveSettings) -> None:
        """The first arm's covariates hold for all; one that had to differ says so and is left out."""
        found = effective.covariates()
        if effective.differs or trial.lever:
            return
        difference = covariates_differ(self._covariates, found)
        if difference:
            raise TrialVoid(f"`equal limits in every arm` must hold, but {difference}.")
        self._covariates = self._covariates or found


class _Sitting:
    """One server's life from start to stop, and what was learnt of it so far."""

    def __init__(
        self, runner: TrialRunner, trial: Trial, scheduled: Scheduled, name: str, *, differs: str = ""
    ) -> None:
        self._runner, self._trial, self._name = runner, trial, name
        setup, self._events = runner._setup, runner._events  # noqa: SLF001  (same module)
        facts = replace(setup.adapter.facts, schedule_text=scheduled.file_text)
        self._setup = replace(setup, adapter=setup.adapter.knowing(facts))
        self._command, self._file_text, self._differs = scheduled.command, scheduled.file_text, differs
        self.log = ""
        self._endpoint = self._setup.adapter.endpoint(self._command)
        self._effective: EffectiveSettings | None = None
        self._started_s = setup.clock.monotonic_s()
        self._launch_s: float | None = None
        self._levels: list[LevelMeasurement] = []

    def run(self) -> TrialOutcome:
        """Starts the server, measures it, stops it whatever happens."""
        memory = self._runner._memory  # noqa: SLF001  (same module)
        try:
            obstacle = memory.obstacle(self._trial.config.num_draft_tokens)
            if obstacle:
                return self._failed("memory_held", obstacle, log="")
            server = self._setup.launcher.start(
                self._command, self._endpoint, name=self._name, file_text=self._file_text
            )
        except PortInUse as error:
            return self._failed("port_in_use", str(error), log="")
        except LaunchError as error:
            return self._failed("crash_at_start", str(error), log="")
        try:
            return self._measure(server)
        finally:
            _stop(server)

    def _measure(self, server: RunningServer) -> TrialOutcome:
        try:
            bench, effective = self._make_ready(server)
            self._check_settings(effective, server)
            for plan in self._plans(bench):
                level = self._measure_level(bench, plan)
                self._check_speculation(effective, level)
            return Completed(
                trial=self._trial,
                effective=effective,
                launch_s=self._launch_s or 0.0,
                levels=settle_levels(self._levels),
            )
        except TrialVoid as void:
            return self._void(str(void))
        except TrialFailed as failure:
            return self._failed(failure.kind, failure.detail, log=server.log_text())
        except (ProtocolError, LoadError, ServerUnreachable) as error:
            found = self._explain(server, error)
            return self._failed(found.kind, found.detail, log=server.log_text())

    def _make_ready(self, server: RunningServer) -> tuple[Bench, EffectiveSettings]:
        """Waits for a real generation, reads the settings back, finds out how to stream."""
        setup, adapter, clock = self._setup, self._setup.adapter, self._setup.clock
        try:
            model = wait_until_ready(
                server, generation_probe(adapter), deadline_s=adapter.ready_deadline_s, clock=clock
            )
        except EngineExited as error:
            when = "before its first generation"
            raise post_mortem(adapter, server, clock, when, str(error), was_ready=False) from error
        except EngineNotReady as error:
            raise TrialFailed("not_ready", f"{error} Its log: {server.log_path}.") from error
        self._launch_s = clock.monotonic_s() - self._started_s
        effective = replace(read_effective(adapter, self._command, server), differs=self._differs)
        self._effective = effective
        self._runner._note_version(effective)  # noqa: SLF001  (same module)
        self._runner._memory.note_ready(effective.config.num_draft_tokens)  # noqa: SLF001  (same module)
        self._events.progress.trial_ready(self._trial, effective, self._launch_s)
        generation = adapter.generation_request(model)
        target = find_load_target(
            server.endpoint,
            model,
            path=generation.path,
            body=generation.body or "{}",
            clock=clock,
            timeout_s=setup.hang_s,
        )
        bench = Bench(
            adapter=adapter,
            config=effective.config,
            server=server,
            target=target,
            clock=clock,
            hang_s=setup.hang_s,
            read_cpu=setup.read_cpu,
        )
        return bench, effective

    def _check_settings(self, effective: EffectiveSettings, server: RunningServer) -> None:
        adapter, lever = self._setup.adapter, self._trial.lever
        difference = settings_differ(self._trial, effective) or lever_differs(adapter.name, lever, effective)
        if difference:
            said = adapter.refusal(server.log_text())
            said = f" Its log: {said[:300]}" if said else ""
            raise TrialVoid(f"`requested = effective` must hold, but {difference}.{said}")
        self._runner._check_covariates(self._trial, effective)  # noqa: SLF001  (same module)

    def _check_speculation(self, effective: EffectiveSettings, level: LevelMeasurement) -> None:
        difference = speculation_differs(self._trial, effective, level.counters)
        if difference:
            raise TrialVoid(f"concurrency {level.concurrency}: {difference}.")

    def _stranger(self, level: LevelMeasurement) -> str:
        """What says that a server others can reach answered somebody else during the level, or ""."""
        return foreign_requests(level) if self._setup.is_shared else ""

    def _plans(self, bench: Bench) -> tuple[LoadPlan, ...]:
        """What this trial measures; the first trial that gets here sizes and fixes the search's plans."""
        book, setup = self._runner._book, self._setup  # noqa: SLF001  (same module)
        book.size(
            bench,
            budget_s=setup.budget_s,
            num_settings=setup.max_settings,
            launch_s=self._launch_s or 0.0,
            share=setup.search_share,
        )
        return book.of(self._trial)

    def _measure_level(self, bench: Bench, plan: LoadPlan) -> LevelMeasurement:
        """The level, measured once more when it was disturbed; the less disturbed one.

        A level during which the server also answered somebody else counts for nothing; twice in a row ends
        the trial.
        """
        repeats = self._runner._repeats  # noqa: SLF001  (same module)
        first = self._measure_once(bench, plan, attempt=0)
        if not is_disturbed(first):
            repeats.note(helped=True)
        is_worth_more = is_disturbed(first) and repeats.is_worthwhile
        if not is_worth_more and not self._stranger(first):
            return first
        second = self._measure_once(bench, plan, attempt=1)
        if is_worth_more:
            repeats.note(helped=not is_disturbed(second))
        level = settle_levels((first, second))[0]
        stranger = self._stranger(level)
        if stranger:
            raise TrialVoid(f"concurrency {level.concurrency}, measured twice: {stranger}.")
        return level

    def _measure_once(self, bench: Bench, plan: LoadPlan, *, attempt: int) -> LevelMeasurement:
        progress = self._events.progress
        progress.level_started(self._trial, plan.concurrency, len(plan.requests))
        level = bench.measure(plan, attempt=attempt, request_done=progress.request_done)
        self._levels.append(level)
        self._events.keep_level(self._trial, level)
        progress.level_done(self._trial, level)
        return level

    def _explain(self, server: RunningServer, error: SpectuneError) -> TrialFailed:
        """What an unreadable or missing answer means: a server that died explains it better."""
        adapter, clock = self._setup.adapter, self._setup.clock
        if ended(server, clock, 1.0) is not None or isinstance(error, ServerUnreachable):
            return post_mortem(adapter, server, clock, "between two levels", str(error))
        return TrialFailed("bad_answer", f"{error} Its log: {server.log_path}.")

    def _void(self, reason: str) -> Void:
        assert self._effective is not None, "a trial is void only after its settings were read"
        return Void(
            trial=self._trial,
            reason=reason,
            effective=self._effective,
            launch_s=self._launch_s or 0.0,
            levels=settle_levels(self._levels),
        )

    def _failed(self, kind: FailureKind, detail: str, *, log: str) -> Failed:
        self.log = log
        story = " ".join([detail, *(f"Known: {bug.line}" for bug in self._known_bugs(log))])
        if self._differs:
            story = f"{story} It ran with {self._differs}."
        return Failed(
            trial=self._trial,
            kind=kind,
            detail=masked(story, self._command, self._endpoint),
            log_tail=tail(masked(log, self._command, self._endpoint)),
            effective=self._effective,
            launch_s=self._launch_s or self._setup.clock.monotonic_s() - self._started_s,
            levels=settle_levels(self._levels),
        )

    def _known_bugs(self, log: str) -> tuple[KnownBug, ...]:
        """What the catalogue says of this engine, setting and log."""
        adapter, config = self._setup.adapter, self._trial.config
        version = self._effective.engine_version if self._effective is not None else ""
        return bugs_in_log(adapter.name, version, adapter.traits(self._command, config), log)


def name_of(trial: Trial) -> str:
    """A name for the trial's files."""
    return f"trial-{trial.id:03d}-{'-'.join(_WORD.findall(trial.label))}"


def obstacle(adapter: EngineAdapter, command: Command, trial: Trial) -> str:
    """Why the trial cannot be run, or ""; raises ConfigError when a flag is malformed."""
    reason = check_lever(adapter.name, trial.lever, adapter.facts.help_text) if trial.lever else ""
    if reason:
        return reason
    if trial.schedule is None:
        return adapter.check(command, trial.config)
    return adapter.check_schedule(command, trial.config, trial.schedule)


def _stop(server: RunningServer) -> None:
    """Stops the server also when the first signal to stop all work comes in the midst of it."""
    try:
        server.stop()
    except (KeyboardInterrupt, SystemExit):
        server.stop()
        raise
