"""One running server under measurement: ask it, load it, measure a level."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectune.clock import Clock
from spectune.domain.command import Command, HttpRequest
from spectune.domain.measurement import LevelMeasurement, SpecCounters
from spectune.domain.spec_config import SpecConfig
from spectune.domain.trial import EffectiveSettings
from spectune.domain.workload import LoadPlan, PlannedRequest
from spectune.engines import openai
from spectune.engines.adapter import EngineAdapter, ServerTraces
from spectune.errors import ProtocolError
from spectune.launch.foreign_cpu import CpuReader, CpuReading, foreign_share, read_cpu
from spectune.launch.http_probe import HttpAnswer, fetch
from spectune.launch.launcher import RunningServer
from spectune.launch.readiness import GenerationProbe
from spectune.loadgen.driver import LoadLimits, LoadRun, Ramp, run_load
from spectune.loadgen.stream_client import LoadTarget
from spectune.tuning.trial_failure import TrialFailed, tail

_ASK_S = 10.0
_FLUSH_S = 5.0
_POST_MORTEM_S = 2.0  # a crashed server may need a moment to end
_DYING_S = 0.3
_MAX_WARMUPS = 4
_TRACE_LINES = 200  # engines say what went wrong above a long traceback


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A server that gave a real generation.

    Attributes:
        adapter: its dialect.
        config: the setting it runs.
        server: the running process.
        target: how the load client reaches it.
        clock: source of time.
        hang_s: how long it may give no event under load.
        read_cpu: tells CPU time, ours and all.
    """

    adapter: EngineAdapter
    config: SpecConfig
    server: RunningServer
    target: LoadTarget
    clock: Clock
    hang_s: float
    read_cpu: CpuReader = read_cpu

    def measure(self, plan: LoadPlan, *, attempt: int, request_done: Callable[[], None]) -> LevelMeasurement:
        """Flush, warm-up until nothing is compiled any more, counted load with counters and CPU around it.

        Raises:
            TrialFailed: the server died, hung, answered nonsense or failed every request.
        """
        self._flush()
        self._warm_up(plan)
        counters = self.counters()
        cpu = self._cpu()
        run = self.load(
            plan.requests,
            plan.concurrency,
            what=f"level of concurrency {plan.concurrency}",
            request_done=request_done,
            ramp=plan.ramp,
        )
        share = foreign_share(cpu, self._cpu())
        return LevelMeasurement(
            concurrency=plan.concurrency,
            attempt=attempt,
            records=run.records,
            counters=_counted(counters, self.counters()),
            foreign_cpu_share=share,
            wall_s=run.wall_s,
            started_unix_s=run.started_unix_s,
            part=plan.part,
        )

    def load(
        self,
        requests: Sequence[PlannedRequest],
        concurrency: int,
        *,
        what: str,
        request_done: Callable[[], None] = lambda: None,
        stop_sending_after_s: float | None = None,
        ramp: Ramp = (),
    ) -> LoadRun:
        """Sends the requests; raises TrialFailed when the server fails them all or is given up."""
        run = run_load(
            requests,
            concurrency=concurrency,
            target=self.target,
            clock=self.clock,
            limits=LoadLimits(hang_s=self.hang_s, stop_sending_after_s=stop_sending_after_s),
            request_done=request_done,
            ramp=ramp,
        )
        self._check(run, what, len(requests))
        return run

    def counters(self) -> SpecCounters | None:
        """The counters now, None where the engine has none; raises ProtocolError or ServerUnreachable."""
        return self.adapter.read_counters(ask(self.server, self.adapter.counters_request()), self.config)

    def _warm_up(self, plan: LoadPlan) -> None:
        """Sends the warm-up, again while the log tells of kernels compiled or graphs captured meanwhile."""
        told = self.adapter.compilations(self.server.log_text())
        for _ in range(_MAX_WARMUPS):
            self.load(plan.warmup, plan.concurrency, what=f"warm-up at concurrency {plan.concurrency}")
            before, told = told, self.adapter.compilations(self.server.log_text())
            if told <= before:
                return

    def _cpu(self) -> CpuReading | None:
        return self.read_cpu(self.clock.monotonic_s(), (os.getpid(), *self.server.process_ids()))

    def _flush(self) -> None:
        """Empties the prefix cache; a server that is still busy is asked again for a while."""
        request = self.adapter.flush_request()
        if request is None:
            return
        give_up_s = self.clock.monotonic_s() + _FLUSH_S
        while True:
            answer = fetch(self.server.endpoint, request, timeout_s=_ASK_S)
            if answer.status == 200:
                return
            if self.clock.monotonic_s() > give_up_s:
                raise _bad_status(request, answer)
            self.clock.sleep(0.05)

    def _check(self, run: LoadRun, what: str, num_planned: int) -> None:
        errors = [record.error for record in run.records if record.error]
        progress = f"{what}, after {len(run.records) - len(errors)} of {num_planned} requests"
        if run.abort is not None and run.abort.kind != "failing":
            wait_s = _DYING_S if run.abort.kind == "hang" else _POST_MORTEM_S
            raise post_mortem(
                self.adapter, self.server, self.clock, progress, run.abort.detail, wait_s=wait_s
            )
        if run.abort is None and (not run.records or len(errors) < len(run.records)):
            return
        last = run.abort.detail if run.abort else f"all requests failed; last: {errors[-1]}"
        if ended(self.server, self.clock, _DYING_S) is not None:
            raise post_mortem(self.adapter, self.server, self.clock, progress, last)
        is_unreadable = 2 * run.num_unreadable >= len(errors)
        raise TrialFailed(
            "bad_answer" if is_unreadable else "request_errors",
            f"{progress}: {last}. Send one such request by hand and look at the server's log.",
        )


def _counted(before: SpecCounters | None, after: SpecCounters | None) -> SpecCounters | None:
    return None if before is None or after is None else after.since(before)


def generation_probe(adapter: EngineAdapter) -> GenerationProbe:
    """How to find out whether this engine's server generates."""
    return GenerationProbe(
        models=openai.models_request(),
        read_model=openai.read_model,
        generation=adapter.generation_request,
        read_generation=adapter.read_generation,
    )


def ask(server: RunningServer, request: HttpRequest) -> str:
    """The body of a 200 answer.

    Raises:
        ServerUnreachable: no answer in time.
        ProtocolError: another status, or not HTTP.
    """
    answer = fetch(server.endpoint, request, timeout_s=_ASK_S)
    if answer.status != 200:
        raise _bad_status(request, answer)
    return answer.body


def read_effective(adapter: EngineAdapter, command: Command, server: RunningServer) -> EffectiveSettings:
    """What the server started by `command` says it runs; raises ProtocolError or ServerUnreachable."""
    answers = tuple(ask(server, request) for request in adapter.settings_requests())
    return adapter.read_settings(command, answers, server.log_text())


def ended(server: RunningServer, clock: Clock, wait_s: float) -> int | None:
    """The server's exit status, waiting a moment for one that is just dying; None while it runs."""
    give_up_s = clock.monotonic_s() + wait_s
    while (status := server.exit_status()) is None and clock.monotonic_s() < give_up_s:
        clock.sleep(0.05)
    return status


def post_mortem(
    adapter: EngineAdapter,
    server: RunningServer,
    clock: Clock,
    when: str,
    symptom: str,
    *,
    was_ready: bool = True,
    wait_s: float = _POST_MORTEM_S,
) -> TrialFailed:
    """The failure of a server that died or fell silent, from its exit status and log.

    Args:
        adapter: knows the engine's signs.
        server: which failed.
        clock: source of time.
        when: what was being done.
        symptom: what was seen from outside; told only when the server still runs.
        was_ready: whether it had given a real generation.
        wait_s: how long to wait for its end.
    """
    status = ended(server, clock, wait_s)
    log_tail = tail(server.log_text(), _TRACE_LINES)
    found = adapter.diagnose(ServerTraces(exit_status=status, log_tail=log_tail, was_ready=was_ready))
    story = [when, symptom, found.cause] if status is None else [when, found.cause]
    told = ": ".join(part.rstrip(".") for part in story)
    return TrialFailed(found.kind, f"{told}. {found.next_step} Its log: {server.log_path}.")


def _bad_status(request: HttpRequest, answer: HttpAnswer) -> ProtocolError:
    return ProtocolError(
        f"{request.method} {request.path}: `status 200` must come, got {answer.status}: "
        f"{answer.body.strip()[:120]!r}."
    )
