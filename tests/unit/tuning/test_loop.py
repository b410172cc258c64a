from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import Completed, Trial, TrialOutcome
from spectune.domain.workload import LoadPlan
from spectune.planning.grid import GridPlanner
from spectune.storage.sqlite_store import SqliteStore
from spectune.testing.recording import FakeClock, RecordedEvents
from spectune.testing.study_values import make_completed, make_failed, make_plan, make_study
from spectune.tuning.loop import tune
from spectune.tuning.plan_book import cells_of
from spectune.tuning.run_trial import TrialEvents

STUDY = make_study(concurrency=(1, 8), num_steps=(0, 1, 2, 3))
SPEEDS = {0: {1: 100.0, 8: 500.0}, 1: {1: 150.0, 8: 450.0}, 2: {1: 140.0, 8: 400.0}, 3: {1: 130.0, 8: 300.0}}
PLANS = (make_plan(1), make_plan(8))


@dataclass(slots=True)
class FakeEngine:
    """Stands for servers: answers trials at known speeds through the same events as the real runner.

    `interrupt_at` (num_steps, concurrency): a Ctrl-C arrives before that level is measured.
    """

    clock: FakeClock
    interrupt_at: tuple[int, int] | None = None
    failing: frozenset[int] = frozenset()
    measured: list[tuple[int, int]] = field(default_factory=list)

    def make_runner(
        self, events: TrialEvents, plans: tuple[LoadPlan, ...]
    ) -> Callable[[Trial], TrialOutcome]:
        remaining = list(plans)

        def run(trial: Trial) -> TrialOutcome:
            steps = trial.config.num_steps
            events.progress.trial_started(trial)
            if steps in self.failing:
                return make_failed(trial.id, steps)
            full = make_completed(trial.id, steps, SPEEDS[steps])
            events.progress.trial_ready(trial, full.effective, full.launch_s)
            if not remaining:
                events.keep_plans(PLANS)
                remaining.extend(PLANS)
            wanted = {cell.concurrency for cell in cells_of(trial, STUDY.concurrency)}
            levels = tuple(level for level in full.levels if level.concurrency in wanted)
            for level in levels:
                if (steps, level.concurrency) == self.interrupt_at:
                    raise KeyboardInterrupt
                self.measured.append((steps, level.concurrency))
                self.clock.advance(1.0)
                events.keep_level(trial, level)
            outcome = replace(full, levels=levels)
            events.progress.trial_done(outcome)
            return outcome

        return run


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> SqliteStore:
    return SqliteStore(tmp_path / "studies.db", clock, "0.1.0")


def run_study(store: SqliteStore, engine: FakeEngine, study: Study = STUDY) -> StudyHistory:
    return tune(study, store, GridPlanner(), engine.make_runner, RecordedEvents())


def tried(history: StudyHistory) -> list[int]:
    return [outcome.trial.config.num_steps for outcome in history.outcomes]


def test_it_runs_until_the_planner_stops_and_keeps_everything(store: SqliteStore, clock: FakeClock) -> None:
    history = run_study(store, FakeEngine(clock))
    assert tried(history) == [0, 1, 2, 3]
    assert "followed by two" in history.finished or "every setting" in history.finished
    assert history.plans == PLANS
    assert history == store.history(STUDY.id)
    assert (history.launches, history.wall_s) == (4, 8.0)


def test_a_failed_setting_is_kept_and_the_study_goes_on(store: SqliteStore, clock: FakeClock) -> None:
    history = run_study(store, FakeEngine(clock, failing=frozenset({1})))
    assert tried(history) == [0, 1, 2, 3]
    assert [isinstance(outcome, Completed) for outcome in history.outcomes] == [True, False, True, True]


@pytest.mark.parametrize("interrupt_at", [(0, 1), (0, 8), (1, 1), (1, 8), (3, 8)])
def test_an_interrupted_study_resumes_without_measuring_anything_twice(
    store: SqliteStore, clock: FakeClock, interrupt_at: tuple[int, int]
) -> None:
    uninterrupted = SqliteStore(store.path.with_name("other.db"), clock, "0.1.0")
    expected = run_study(uninterrupted, FakeEngine(clock))
    first, second = FakeEngine(clock, interrupt_at=interrupt_at), FakeEngine(clock)
    with suppress(KeyboardInterrupt):
        run_study(store, first)
    assert store.history(STUDY.id).finished == ""
    history = run_study(store, second)
    assert sorted(first.measured + second.measured) == sorted(
        (steps, level) for steps in SPEEDS for level in (1, 8)
    )
    assert history.outcomes == expected.outcomes
    assert (history.finished, history.unfinished) == (expected.finished, ())


def test_a_trial_cut_off_behind_its_last_level_needs_no_launch(store: SqliteStore, clock: FakeClock) -> None:
    outcome = make_completed(1, 0, SPEEDS[0])
    with store.writing(STUDY) as writer:
        writer.add_launch(outcome.trial)
        writer.add_ready(outcome.trial, outcome.effective, outcome.launch_s)
        writer.add_plans(PLANS)
        for level in outcome.levels:
            writer.add_level(outcome.trial, level)
    engine = FakeEngine(clock)
    history = run_study(store, engine)
    assert history.outcomes[0] == outcome
    assert all(steps > 0 for steps, _ in engine.measured)
    assert history.launches == 4


def test_a_finished_study_is_left_as_it_is(store: SqliteStore, clock: FakeClock) -> None:
    before = run_study(store, FakeEngine(clock))
    engine = FakeEngine(clock)
    after = run_study(store, engine)
    assert engine.measured == []
    assert after.outcomes == before.outcomes


def test_the_watcher_hears_every_event(store: SqliteStore, clock: FakeClock) -> None:
    watcher = RecordedEvents()
    tune(replace(STUDY, id="one"), store, GridPlanner(), FakeEngine(clock).make_runner, watcher)
    assert watcher.names[:2] == ["started 1", "ready 1"]
    assert len(watcher.outcomes) == 4
