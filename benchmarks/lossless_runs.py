"""The lossless check on the embedded engine: 200 checks of an exact engine, 20 of one with a planted fault.

Off answers ten sets of prompts twice (the noise floor), then twenty settings (chains, trees, every method,
schedules) answer each set once: 200 checks of about 2,000 greedy tokens. The faulty engine is told to corrupt
one emitted token in a thousand; each of its checks holds at least 7,000 tokens against off's. Real processes;
speed does not matter here. The exit status is 1 where an exact engine differs, a fault is missed, or a check
has too few tokens.

    python benchmarks/lossless_runs.py [--sets 10] [--settings 20] [--out benchmarks/lossless_runs.md]
"""

import argparse
import gzip
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from spectune.analysis.launches import measured_levels
from spectune.analysis.lossless import ENOUGH_TOKENS, Lossless, check_lossless
from spectune.clock import SystemClock
from spectune.domain.command import Command
from spectune.domain.measurement import LevelMeasurement
from spectune.domain.schedule import Schedule
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import StudyHistory
from spectune.domain.trial import Completed, PlannedCell, Role, Trial, TrialId
from spectune.domain.workload import LoadPlan
from spectune.engines.embedded import EmbeddedAdapter
from spectune.launch.readiness import wait_until_ready
from spectune.launch.subprocess_launcher import SubprocessLauncher
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.recording import free_port
from spectune.testing.study_values import make_effective, make_history, make_study
from spectune.tuning.bench import Bench, generation_probe
from spectune.workloads.load_plan import LevelSize, plan_levels
from spectune.workloads.prompts import PromptPool, python_code_pool

EXACT_REQUESTS, FAULTY_REQUESTS = 28, 112
LEVELS = (8, 32)
HEAD = "| arm | checks | verdicts | tokens a check, least | before a first difference, least |"


@dataclass(frozen=True)
class Arm:
    """What a server is told."""

    config: SpecConfig
    schedule: Schedule | None = None
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For the table."""
        name = self.config.label if self.schedule is None else f"schedule {self.schedule.label}"
        return " ".join((name, *self.flags))


def tree(method: str, num_steps: int, topk: int) -> SpecConfig:
    """A tree of the engine's usual size."""
    return SpecConfig(method=method, num_steps=num_steps, topk=topk, num_draft_tokens=1 + num_steps * topk)


ARMS = (
    *(Arm(SpecConfig.chain("eagle", steps)) for steps in (3, 1, 2, 4, 5, 6, 8)),
    *(Arm(SpecConfig.chain("draft_model", steps)) for steps in (1, 2, 3, 5)),
    *(Arm(SpecConfig.chain("ngram", steps)) for steps in (1, 2, 4, 8)),
    *(Arm(tree(method, steps, 2)) for method, steps in (("eagle", 2), ("eagle", 3), ("draft_model", 2))),
    Arm(SpecConfig.chain("eagle", 3), Schedule.of((1, 4, 3), (5, None, 0))),
    Arm(SpecConfig.chain("eagle", 2), Schedule.of((1, 8, 2), (9, None, 1))),
)
FAULTY = tuple(
    Arm(SpecConfig.chain("eagle", steps), flags=("--testing-corrupt-every", "1000")) for steps in (3, 8)
)


def answers(arm: Arm, plans: Sequence[LoadPlan], logs: Path) -> list[LevelMeasurement]:
    """What a server of this arm answers to every set."""
    adapter, clock = EmbeddedAdapter(), SystemClock()
    command = Command(
        argv=(sys.executable, "-m", "spectune", "serve", "--port", str(free_port()), *arm.flags)
    )
    if arm.schedule is not None:
        command = adapter.scheduled(command, arm.config, arm.schedule, "").command
    else:
        command = adapter.command_for(command, arm.config)
    server = SubprocessLauncher(logs, clock, drain_s=5.0).start(
        command, adapter.endpoint(command), name="engine"
    )
    try:
        model = wait_until_ready(server, generation_probe(adapter), deadline_s=120.0, clock=clock)
        bench = Bench(
            adapter=adapter,
            config=arm.config,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=model),
            clock=clock,
            hang_s=60.0,
        )
        return [bench.measure(plan, attempt=0, request_done=lambda: None) for plan in plans]
    finally:
        server.stop()


def check(off: tuple[LevelMeasurement, LevelMeasurement], arm: Arm, level: LevelMeasurement) -> Lossless:
    """One check, as a study makes it."""
    study = make_study(concurrency=(level.concurrency,))
    study = replace(study, workload=replace(study.workload, temperature=0.0))
    cells = (PlannedCell(concurrency=level.concurrency),)

    def outcome(number: int, role: Role, config: SpecConfig, measured: LevelMeasurement) -> Completed:
        trial = Trial(id=TrialId(number), config=config, role=role, cells=cells)
        return Completed(trial=trial, effective=make_effective(config), launch_s=1.0, levels=(measured,))

    history: StudyHistory = make_history(
        study,
        (
            outcome(1, "baseline", OFF, off[0]),
            outcome(2, "setting", arm.config, level),
            outcome(3, "confirm", OFF, off[1]),
        ),
    )
    return check_lossless(history, measured_levels(history))


def make_sets(count: int, num_requests: int) -> tuple[LoadPlan, ...]:
    """Disjoint sets of prompts, at 8 and 32 requests in flight in turn."""
    packed = resources.files("spectune.workloads") / "data" / "python_code.jsonl.gz"
    pool: PromptPool = python_code_pool(gzip.decompress(packed.read_bytes()).decode("utf-8"))
    sizes = [
        LevelSize(
            concurrency=min(LEVELS[i % 2], num_requests),
            num_requests=num_requests,
            num_warmup=1,
            spread_s=0.0,
        )
        for i in range(count)
    ]
    return plan_levels(pool, sizes)


def checks(
    arms: Sequence[Arm], plans: Sequence[LoadPlan], logs: Path
) -> Iterator[tuple[Arm, list[Lossless]]]:
    """Every arm's checks, one for each set, against off, which answers every set twice."""
    first, again = (answers(Arm(OFF), plans, logs) for _ in range(2))
    for arm in arms:
        sets = zip(first, again, answers(arm, plans, logs), strict=True)
        yield arm, [check((one, other), arm, level) for one, other, level in sets]


def least_tokens(found: Sequence[Lossless]) -> int:
    """Tokens held against off's in the check that has the fewest."""
    return min(one.checked_tokens for one in found)


def row(arm: Arm, found: Sequence[Lossless]) -> str:
    """A line of the table, printed as well."""
    verdicts = Counter(one.verdict for one in found)
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    agreeing = min(one.total.agreeing for one in found)
    line = f"| {arm.label} | {len(found)} | {told} | {least_tokens(found)} | {agreeing} |"
    print(line, flush=True)
    return line


def main() -> int:
    """Runs all checks and writes the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--settings", type=int, default=len(ARMS))
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    lines = [HEAD, "|---|---|---|---|---|"]
    exact: list[Lossless] = []
    faulty: list[Lossless] = []
    with tempfile.TemporaryDirectory() as folder:
        sets = make_sets(asked.sets, EXACT_REQUESTS)
        for arm, found in checks(ARMS[: asked.settings], sets, Path(folder)):
            exact += found
            lines.append(row(arm, found))
        for arm, found in checks(FAULTY, make_sets(asked.sets, FAULTY_REQUESTS), Path(folder)):
            faulty += found
            lines.append(row(arm, found))
    alike = sum(one.verdict == "exact" for one in exact)
    caught = sum(one.verdict == "differs" for one in faulty)
    lines.append("")
    lines.append(f"Exact engine: {alike} of {len(exact)} checks exact.")
    lines.append(
        f"Planted fault: caught in {caught} of {len(faulty)} checks, each of {least_tokens(faulty)} tokens "
        f"or more ({ENOUGH_TOKENS} are asked for)."
    )
    print("\n".join(lines[-2:]))
    if asked.out is not None:
        head = "# The lossless check on the embedded engine\n\nWritten by `benchmarks/lossless_runs.py`.\n\n"
        asked.out.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    is_kept = alike == len(exact) and caught == len(faulty) and least_tokens(faulty) >= ENOUGH_TOKENS
    return 0 if is_kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
