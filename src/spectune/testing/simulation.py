"""A ready-made trial runner over the simulated server: real processes and sockets, known truth, short."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.engines.adapter import EngineAdapter
from spectune.engines.embedded import EmbeddedAdapter
from spectune.launch.foreign_cpu import CpuReader, CpuReading
from spectune.launch.launcher import RunningServer
from spectune.launch.memory import MemoryReader, nothing_read
from spectune.launch.readiness import wait_until_ready
from spectune.launch.subprocess_launcher import SubprocessLauncher
from spectune.testing.recording import RecordedEvents, free_port
from spectune.tuning.bench import generation_probe
from spectune.tuning.run_trial import TrialEvents, TrialRunner, TrialSetup
from spectune.workloads.prompts import PromptPool
from spectune.workloads.request_file import request_file_pool


def quiet_machine(at_s: float, root_pids: Iterable[int]) -> CpuReading:
    """Readings of a machine on which nobody else does anything."""
    del root_pids
    return CpuReading(at_s=at_s, busy_s=0.0, ours_s=0.0)


def simulated_command(*flags: str, port: int | None = None) -> Command:
    """The simulated server's command with flags of its own, on a free port unless one is given."""
    module = "spectune.testing.simulated_server"
    return Command(argv=(sys.executable, "-m", module, "--port", str(port or free_port()), *flags))


def simulated_pool(num_prompts: int = 200, max_tokens: int = 24) -> PromptPool:
    """Distinct short requests."""
    lines = (
        json.dumps({"prompt": f"request number {number}", "max_tokens": max_tokens, "temperature": 0})
        for number in range(num_prompts)
    )
    return request_file_pool("\n".join(lines), name="simulated.jsonl")


@contextmanager
def running_simulation(log_folder: Path, *flags: str, wait: bool = True) -> Iterator[RunningServer]:
    """A simulated server with these flags, ready unless told not to wait, and stopped at the end."""
    adapter, clock = EmbeddedAdapter(), SystemClock()
    command = simulated_command(*flags)
    server = SubprocessLauncher(log_folder, clock, drain_s=1.0).start(
        command, adapter.endpoint(command), name="simulated"
    )
    try:
        if wait:
            wait_until_ready(server, generation_probe(adapter), deadline_s=20.0, clock=clock)
        yield server
    finally:
        server.stop()


def simulated_runner(  # noqa: PLR0913  (what tests vary)
    command: Command,
    log_folder: Path,
    events: RecordedEvents,
    *,
    concurrency: tuple[int, ...] = (1, 4),
    hang_s: float = 5.0,
    ready_deadline_s: float = 20.0,
    read_cpu: CpuReader = quiet_machine,
    adapter: EngineAdapter | None = None,
    is_shared: bool = False,
    read_memory: MemoryReader = nothing_read,
) -> TrialRunner:
    """A runner that measures a trial of two levels in about two seconds, on a machine that seems quiet."""
    setup = TrialSetup(
        adapter=adapter or EmbeddedAdapter(ready_deadline_s=ready_deadline_s),
        launcher=SubprocessLauncher(log_folder, SystemClock(), drain_s=1.0),
        command=command,
        pool=simulated_pool(),
        concurrency=concurrency,
        budget_s=1.0,  # so small that every level gets its least
        max_settings=2,
        clock=SystemClock(),
        hang_s=hang_s,
        read_cpu=read_cpu,
        is_shared=is_shared,
        read_memory=read_memory,
    )
    calls = TrialEvents(progress=events, keep_plans=events.keep_plans, keep_level=events.keep_level)
    return TrialRunner(setup, calls)
