import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from spectune.domain.command import Command
from spectune.domain.measurement import SpecCounters
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.trial import (
    Completed,
    EffectiveSettings,
    Failed,
    FailureKind,
    Infeasible,
    PlannedCell,
    ReportedKey,
    Trial,
    TrialId,
    TrialOutcome,
    Void,
)
from spectune.engines.adapter import Prepared
from spectune.engines.embedded import EmbeddedAdapter
from spectune.launch.foreign_cpu import CpuReading
from spectune.launch.memory import MemoryPlace
from spectune.metrics.acceptance import setting_faults
from spectune.metrics.summary import summarise_level
from spectune.testing.recording import RecordedEvents, free_port
from spectune.testing.simulated_engine import SimulatedEngine
from spectune.testing.simulation import simulated_command, simulated_runner

CHAIN = SpecConfig.chain("eagle", 2)
TRUTH = SimulatedEngine()


def trial(config: SpecConfig = CHAIN, number: int = 1) -> Trial:
    return Trial(id=TrialId(number), config=config, role="setting")


def run(tmp_path: Path, *flags: str, config: SpecConfig = CHAIN) -> tuple[TrialOutcome, RecordedEvents]:
    events = RecordedEvents()
    return simulated_runner(simulated_command(*flags), tmp_path, events)(trial(config)), events


def test_a_trial_measures_every_level_and_finds_the_truth(tmp_path: Path) -> None:
    outcome, events = run(tmp_path)
    assert isinstance(outcome, Completed)
    assert outcome.effective.config == CHAIN
    assert [level.concurrency for level in outcome.levels] == [1, 4]
    for level in outcome.levels:
        summary = summarise_level(level)
        assert summary.errors == 0
        assert summary.acceptance_length == pytest.approx(TRUTH.tokens_per_step(CHAIN), rel=0.15)
        assert summary.step_s is not None
        assert summary.step_s >= 0.85 * TRUTH.step_s(CHAIN, level.concurrency)
        assert level.counters is not None
        tokens = sum(record.output_tokens or 0 for record in level.records)
        faults = setting_faults(level.counters, CHAIN, num_requests=len(level.records), output_tokens=tokens)
        assert faults == ()
    assert events.names[:3] == ["started 1", "ready 1", "level 1"]
    assert events.names[-1] == "done 1"
    assert events.outcomes == [outcome]


def test_later_trials_send_the_same_requests_in_the_same_order(tmp_path: Path) -> None:
    events = RecordedEvents()
    runner = simulated_runner(simulated_command(), tmp_path, events)
    first = runner(trial(OFF, 1))
    plans = events.plans
    second = runner(trial(CHAIN, 2))
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert plans == runner.plans != ()
    for one, other in zip(first.levels, second.levels, strict=True):
        assert [record.index for record in one.records] == [record.index for record in other.records]
        assert [record.prompt_tokens for record in one.records] == [r.prompt_tokens for r in other.records]
    assert summarise_level(first.levels[0]).acceptance_length is None


@pytest.mark.parametrize(
    ("flags", "kind", "telling"),
    [
        (("--sim-fault", "die-at-start"), "crash_at_start", "cannot load the draft"),
        (("--sim-fault", "bad-argument"), "bad_argument", "--speculative-num-steps"),
        (("--sim-fault", "out-of-memory"), "out_of_memory", "--max-running-requests"),
        (("--sim-fault", "garbage-http"), "bad_answer", "is HTTP"),
        (("--sim-fault", "garbage-info"), "bad_answer", "/server_info"),
        (("--sim-fault", "garbage-metrics"), "bad_answer", "metrics"),
        (("--sim-fault", "garbage-after:4"), "bad_answer", "not json"),
        (("--sim-fault", "errors-after:4"), "request_errors", "HTTP 500"),
        (("--sim-fault", "die-after:4"), "crash_under_load", "status 7"),
        (("--sim-fault", "hang-after:4"), "hang", "no token"),
        (("--no-such-flag",), "bad_argument", "no-such-flag"),
    ],
)
def test_trouble_is_an_outcome_with_class_cause_and_log(
    tmp_path: Path, flags: tuple[str, ...], kind: FailureKind, telling: str
) -> None:
    outcome, events = run(tmp_path, *flags)
    assert isinstance(outcome, Failed)
    assert outcome.kind == kind
    assert telling in outcome.detail + outcome.log_tail
    assert outcome.launch_s is not None
    assert outcome.launch_s > 0  # the server was away meanwhile, also where it never got ready
    assert events.names[-1] == "done 1"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("die-after:22", "crash_under_load"), ("hang-after:22", "hang"), ("errors-after:20", "request_errors")],
)
def test_levels_measured_before_the_trouble_are_kept(tmp_path: Path, fault: str, kind: FailureKind) -> None:
    events = RecordedEvents()
    command = simulated_command("--sim-fault", f"{fault}@2")
    runner = simulated_runner(command, tmp_path, events)
    assert isinstance(runner(trial(OFF, 1)), Completed)
    outcome = runner(trial(CHAIN, 2))
    assert isinstance(outcome, Failed)
    assert outcome.kind == kind
    assert "concurrency 4" in outcome.detail
    assert outcome.effective is not None
    assert [level.concurrency for level in outcome.levels] == [1]
    assert [level.concurrency for kept, level in events.levels if kept.id == 2][-1:] == [1]


@pytest.mark.parametrize(
    ("fault", "telling"),
    [("wrong-settings", "num_steps 2 was asked for, 1 runs"), ("counters-still", "not really on")],
)
def test_a_server_that_runs_something_else_is_void(tmp_path: Path, fault: str, telling: str) -> None:
    outcome, _ = run(tmp_path, "--sim-fault", fault)
    assert isinstance(outcome, Void)
    assert telling in outcome.reason


def test_a_taken_port_is_an_outcome(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = simulated_command(port=listener.getsockname()[1])
        outcome = simulated_runner(command, tmp_path, RecordedEvents())(trial())
    assert isinstance(outcome, Failed)
    assert outcome.kind == "port_in_use"
    assert "--port" in outcome.detail


def test_what_the_engine_cannot_do_is_never_launched(tmp_path: Path) -> None:
    outcome, events = run(tmp_path, config=SpecConfig.chain("medusa", 2))
    assert isinstance(outcome, Infeasible)
    assert events.names == []
    assert list(tmp_path.iterdir()) == []


def test_secrets_do_not_reach_the_outcome(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, "--api-key", "s3cret-word", "--unknown", "s3cret-word")
    assert isinstance(outcome, Failed)
    assert "s3cret-word" not in outcome.detail + outcome.log_tail
    assert "****" in outcome.log_tail


def test_a_server_that_ignores_sigterm_is_gone_after_the_trial(tmp_path: Path) -> None:
    command = simulated_command("--sim-fault", "ignore-sigterm", "--sim-fault", "leave-child")
    outcome = simulated_runner(command, tmp_path, RecordedEvents())(trial())
    assert isinstance(outcome, Completed)
    port = int(command.argv[command.argv.index("--port") + 1])
    with socket.create_server(("127.0.0.1", port)):
        pass


class BusyMachine:
    """CPU readings with a foreign share of 50 % in the first `busy` levels, then none."""

    def __init__(self, busy: int) -> None:
        self._readings_left, self._busy_s = 2 * busy, 0.0

    def __call__(self, at_s: float, root_pids: Iterable[int]) -> CpuReading:
        assert os.getpid() in root_pids
        self._readings_left -= 1
        if self._readings_left >= 0:
            self._busy_s = 0.5 * at_s
        return CpuReading(at_s=at_s, busy_s=self._busy_s, ours_s=0.0)


@pytest.mark.parametrize(
    ("busy", "measured"), [(0, [1, 4]), (1, [1, 1, 4]), (2, [1, 1, 4]), (99, [1, 1, 4, 4])]
)
def test_a_disturbed_level_is_measured_once_more(tmp_path: Path, busy: int, measured: list[int]) -> None:
    events = RecordedEvents()
    runner = simulated_runner(simulated_command(), tmp_path, events, read_cpu=BusyMachine(busy))
    outcome = runner(trial())
    assert isinstance(outcome, Completed)
    assert [level.concurrency for _, level in events.levels] == measured
    assert [level.concurrency for level in outcome.levels] == [1, 4]
    assert [summarise_level(level).disturbed for level in outcome.levels] == [busy >= 2, busy == 99]
    if busy == 1:
        assert [level.attempt for level in outcome.levels] == [1, 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited(EmbeddedAdapter):
    """Somebody else's tokens are counted during each of the first `visits` measurements."""

    visits: int
    readings: list[int] = field(default_factory=list)

    def read_counters(self, body: str, config: SpecConfig) -> SpecCounters | None:
        found = EmbeddedAdapter.read_counters(self, body, config)
        assert found is not None
        assert found.generated_tokens is not None
        self.readings.append(found.generated_tokens)
        foreign = 100_000 * min(len(self.readings) // 2, self.visits)
        return replace(found, generated_tokens=found.generated_tokens + foreign)


def test_a_level_with_foreign_requests_is_measured_once_more(tmp_path: Path) -> None:
    events = RecordedEvents()
    runner = simulated_runner(
        simulated_command(), tmp_path, events, adapter=Visited(visits=1), is_shared=True
    )
    outcome = runner(trial())
    assert isinstance(outcome, Completed)
    assert [level.concurrency for _, level in events.levels] == [1, 1, 4]
    assert [level.attempt for level in outcome.levels] == [1, 0]


def test_foreign_requests_twice_at_a_level_end_the_trial(tmp_path: Path) -> None:
    runner = simulated_runner(
        simulated_command(), tmp_path, RecordedEvents(), adapter=Visited(visits=2), is_shared=True
    )
    outcome = runner(trial())
    assert isinstance(outcome, Void)
    assert "concurrency 1, measured twice: the server generated" in outcome.reason


def test_a_server_of_our_own_has_no_foreign_requests(tmp_path: Path) -> None:
    events = RecordedEvents()
    runner = simulated_runner(simulated_command(), tmp_path, events, adapter=Visited(visits=9))
    assert isinstance(runner(trial()), Completed)
    assert [level.concurrency for _, level in events.levels] == [1, 4]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking(EmbeddedAdapter):
    """Has a memory fraction: less of it cures the simulated lack of memory, or does not."""

    cures: bool = True

    def with_less_memory(self, command: Command, log: str) -> Prepared | None:
        assert "out of memory" in log
        argv = command.argv[:-2] if self.cures else command.argv
        return Prepared(command=Command(argv=argv), notes=("--fraction 0.8 instead of 0.9",))


def test_a_larger_setting_that_would_not_fit_is_not_started(tmp_path: Path) -> None:
    free = [MemoryPlace(name="RAM", free_bytes=10, total_bytes=100)]
    runner = simulated_runner(
        simulated_command(), tmp_path, RecordedEvents(), concurrency=(1, 2), read_memory=lambda: tuple(free)
    )
    assert isinstance(runner(trial(OFF, 1)), Completed)
    free[0] = MemoryPlace(name="RAM", free_bytes=0, total_bytes=10 << 30)
    runner._memory._taken = {"RAM": 1 << 30}
    outcome = runner(trial(CHAIN, 2))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "memory_held"
    assert "1.0 GiB are free for a larger setting" in outcome.detail
    assert not list(tmp_path.glob("trial-002*"))


def test_out_of_memory_under_the_first_load_is_tried_once_more(tmp_path: Path) -> None:
    events = RecordedEvents()
    command = simulated_command("--sim-fault", "out-of-memory-after:4")
    outcome = simulated_runner(command, tmp_path, events, adapter=Shrinking())(trial(OFF))
    assert isinstance(outcome, Completed), outcome
    assert outcome.effective.differs == "--fraction 0.8 instead of 0.9"


def test_out_of_memory_is_tried_once_more_with_less_and_marked(tmp_path: Path) -> None:
    events = RecordedEvents()
    command = simulated_command("--sim-fault", "out-of-memory")
    outcome = simulated_runner(command, tmp_path, events, adapter=Shrinking())(trial(OFF))
    assert isinstance(outcome, Completed)
    assert "0.8 instead of 0.9" in outcome.effective.differs
    assert events.names[:3] == ["started 1", "started 1", "ready 1"]
    assert len(list(tmp_path.glob("*.log"))) == 2


def test_out_of_memory_again_is_the_outcome(tmp_path: Path) -> None:
    events = RecordedEvents()
    command = simulated_command("--sim-fault", "out-of-memory")
    outcome = simulated_runner(command, tmp_path, events, adapter=Shrinking(cures=False))(trial(OFF))
    assert isinstance(outcome, Failed)
    assert outcome.kind == "out_of_memory"
    assert "0.8 instead of 0.9" in outcome.detail
    assert events.names.count("started 1") == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Covarying(EmbeddedAdapter):
    """Declares a limit that follows the setting, or does not."""

    is_equal: bool

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        found = EmbeddedAdapter.read_settings(self, command, answers, log)
        limit = "48" if self.is_equal else str(48 - found.config.num_steps)
        return replace(found, reported=(ReportedKey(name="limit", value=limit, kind="covariate"),))


@pytest.mark.parametrize("is_equal", [True, False])
def test_a_limit_that_differs_between_arms_voids_the_later_one(tmp_path: Path, is_equal: bool) -> None:
    runner = simulated_runner(
        simulated_command(), tmp_path, RecordedEvents(), adapter=Covarying(is_equal=is_equal)
    )
    assert isinstance(runner(trial(OFF, 1)), Completed)
    later = runner(trial(CHAIN, 2))
    if is_equal:
        assert isinstance(later, Completed)
    else:
        assert isinstance(later, Void)
        assert "limit is 46 here and 48 in the first arm" in later.reason


TUNER = """
import signal, sys
from pathlib import Path
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import Trial, TrialId
from spectune.testing.recording import RecordedEvents
from spectune.testing.simulation import simulated_command, simulated_runner
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
class Loud(RecordedEvents):
    def level_started(self, *_):
        print("level", flush=True)
events = Loud()
runner = simulated_runner(simulated_command("--sim-time-scale", "10"), Path(sys.argv[1]), events)
runner(Trial(id=TrialId(1), config=SpecConfig.chain("eagle", 2), role="setting"))
"""


def _sessions_below(pid: int) -> set[int]:
    """Of a process's children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {os.getsid(int(child)) for child in children} - {os.getsid(pid)}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_an_interrupted_trial_leaves_no_process(tmp_path: Path, number: signal.Signals, status: int) -> None:
    tuner = subprocess.Popen(
        [sys.executable, "-c", TUNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert tuner.stdout is not None
    try:
        assert tuner.stdout.readline() == "level\n"
        give_up_s = time.monotonic() + 30
        while len(sessions := _sessions_below(tuner.pid)) < 2 and time.monotonic() < give_up_s:
            time.sleep(0.02)
        tuner.send_signal(number)
        assert tuner.wait(timeout=20) == status
    finally:
        tuner.kill()
        tuner.wait()
        tuner.stdout.close()
    assert len(sessions) == 2, "the server and its watcher"
    assert not any(Path(f"/proc/{session}").exists() for session in sessions)


def test_a_trial_may_measure_other_cells_with_other_prompts(tmp_path: Path) -> None:
    events = RecordedEvents()
    runner = simulated_runner(simulated_command(), tmp_path, events)
    first = runner(trial(OFF, 1))
    cells = (
        PlannedCell(concurrency=2, part="fresh"),
        PlannedCell(concurrency=4, part="ramp"),
        PlannedCell(concurrency=4),
    )
    second = runner(replace(trial(OFF, 2), role="confirm", cells=cells))
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert [(level.concurrency, level.part) for level in second.levels] == [
        (2, "fresh"), (4, "ramp"), (4, "search"),
    ]  # fmt: skip
    plans = {(plan.concurrency, plan.part): plan for plan in runner.plans}
    texts = {cell: {request.body for request in plan.requests} for cell, plan in plans.items()}
    assert not texts[2, "fresh"] & (texts[1, "search"] | texts[4, "search"])
    assert len(first.levels[1].records) == len(second.levels[2].records)


class DeclaredLimit(EmbeddedAdapter):
    """Declares its limit as a covariate."""

    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        found = EmbeddedAdapter.read_settings(self, command, answers, log)
        limit = str(found.max_running_requests)
        return replace(found, reported=(ReportedKey(name="limit", value=limit, kind="covariate"),))


def test_a_lever_changes_a_limit_and_is_no_covariate_fault(tmp_path: Path) -> None:
    events = RecordedEvents()
    runner = simulated_runner(
        simulated_command(), tmp_path, events, adapter=DeclaredLimit(), concurrency=(1, 2)
    )
    first = runner(trial(OFF, 1))
    second = runner(replace(trial(OFF, 2), role="baseline", lever="--max-running-requests 3"))
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert first.effective.max_running_requests != 3
    assert second.effective.max_running_requests == 3


class MoreThanAsked(EmbeddedAdapter):
    def read_settings(self, command: Command, answers: tuple[str, ...], log: str) -> EffectiveSettings:
        found = EmbeddedAdapter.read_settings(self, command, answers, log)
        return replace(found, max_running_requests=48)


def test_a_lever_the_server_does_not_follow_voids_the_trial(tmp_path: Path) -> None:
    runner = simulated_runner(
        simulated_command(), tmp_path, RecordedEvents(), adapter=MoreThanAsked(), concurrency=(1, 2)
    )
    outcome = runner(replace(trial(OFF, 1), lever="--max-running-requests 3"))
    assert isinstance(outcome, Void)
    assert "max_running_requests 3 was asked for, 48 runs" in outcome.reason


def test_a_schedule_is_started_and_checked_on_the_embedded_engine(tmp_path: Path) -> None:
    port = free_port()
    command = Command(argv=(sys.executable, "-m", "spectune", "serve", "--port", str(port)))
    runner = simulated_runner(command, tmp_path, RecordedEvents(), concurrency=(1, 4), hang_s=20.0)
    schedule = Schedule.of((1, 2, 3), (3, None, 0))
    outcome = runner(replace(trial(SpecConfig.chain("eagle", 3)), role="schedule", schedule=schedule))
    assert isinstance(outcome, Completed), outcome
    assert outcome.effective.schedule == schedule
    alone, crowd = outcome.levels
    assert alone.counters is not None
    assert crowd.counters is not None
    assert alone.counters.verify_steps > 0
    assert crowd.counters.undrafted_steps > 0
    assert outcome.trial.label == "schedule 1-2:3,3-:0"
