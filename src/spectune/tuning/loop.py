"""The heart: plan, run, remember, until the planner stops. Whatever happens, the store keeps all of it."""

from collections.abc import Callable
from dataclasses import replace

from spectune.domain.measurement import LevelMeasurement
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    PlannedCell,
    Trial,
    TrialOutcome,
    UnfinishedTrial,
)
from spectune.domain.workload import LoadPlan
from spectune.planning.planner import Planner, Propose, Stop
from spectune.storage.store import StudyWriter, TrialStore
from spectune.tuning.plan_book import cells_of
from spectune.tuning.progress import Progress
from spectune.tuning.run_trial import TrialEvents

RunTrial = Callable[[Trial], TrialOutcome]
MakeRunner = Callable[[TrialEvents, tuple[LoadPlan, ...]], RunTrial]
"""Makes what runs trials; plans fixed in an earlier sitting are handed in, empty when there are none."""


def tune(
    study: Study, store: TrialStore, planner: Planner, make_runner: MakeRunner, progress: Progress
) -> StudyHistory:
    """Alternates planning and measuring until the planner stops.

    A study that is already in the store is taken up where it was left: finished trials are not repeated,
    and of an interrupted trial only the levels that are missing are measured.
    """
    with store.writing(study) as writer:
        events = _events(writer, progress)
        run = make_runner(events, store.history(study.id).plans)
        for unfinished in store.history(study.id).unfinished:
            writer.add_outcome(_finish(unfinished, store.history(study.id), run))
        while True:
            history = store.history(study.id)
            match planner.next(study, history):
                case Stop(reason=reason):
                    writer.finish(reason)
                    break
                case Propose(trial=trial):
                    writer.add_outcome(run(trial))
    return store.history(study.id)


class RecordingProgress:
    """Appends launches to the store before it tells whoever watches."""

    def __init__(self, writer: StudyWriter, watcher: Progress) -> None:
        self._writer = writer
        self._watcher = watcher

    def trial_started(self, trial: Trial) -> None:
        """Notes the launch."""
        self._writer.add_launch(trial)
        self._watcher.trial_started(trial)

    def trial_ready(self, trial: Trial, effective: EffectiveSettings, launch_s: float) -> None:
        """Notes what the server says it runs."""
        self._writer.add_ready(trial, effective, launch_s)
        self._watcher.trial_ready(trial, effective, launch_s)

    def level_started(self, trial: Trial, concurrency: int, num_requests: int) -> None:
        """Passes it on."""
        self._watcher.level_started(trial, concurrency, num_requests)

    def request_done(self) -> None:
        """Passes it on."""
        self._watcher.request_done()

    def level_done(self, trial: Trial, level: LevelMeasurement) -> None:
        """Passes it on; the level itself is kept through `TrialEvents.keep_level`."""
        self._watcher.level_done(trial, level)

    def trial_done(self, outcome: TrialOutcome) -> None:
        """Passes it on; the loop appends the outcome."""
        self._watcher.trial_done(outcome)


def _events(writer: StudyWriter, progress: Progress) -> TrialEvents:
    return TrialEvents(
        progress=RecordingProgress(writer, progress),
        keep_plans=writer.add_plans,
        keep_level=writer.add_level,
    )


def _finish(unfinished: UnfinishedTrial, history: StudyHistory, run: RunTrial) -> TrialOutcome:
    """Measures what an interrupted trial lacks; its earlier levels stay in the store and count."""
    trial = unfinished.trial
    measured = {PlannedCell(concurrency=level.concurrency, part=level.part) for level in unfinished.levels}
    missing = tuple(cell for cell in cells_of(trial, history.study.concurrency) if cell not in measured)
    if not missing and unfinished.effective is not None and unfinished.launch_s is not None:
        return Completed(
            trial=trial,
            effective=unfinished.effective,
            launch_s=unfinished.launch_s,
            levels=unfinished.levels,
        )
    return replace(run(replace(trial, cells=missing)), trial=trial)
