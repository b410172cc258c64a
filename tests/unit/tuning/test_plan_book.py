from pathlib import Path

from spectune.clock import SystemClock
from spectune.domain.spec_config import OFF
from spectune.domain.trial import PlannedCell, Trial, TrialId
from spectune.domain.workload import LoadPlan
from spectune.engines.embedded import EmbeddedAdapter
from spectune.launch.launcher import RunningServer
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.simulation import running_simulation, simulated_pool
from spectune.tuning.bench import Bench
from spectune.tuning.pilot import num_pilot_prompts
from spectune.tuning.plan_book import PlanBook, cells_of

TRIAL = Trial(id=TrialId(1), config=OFF, role="setting")
FRESH = PlannedCell(concurrency=2, part="fresh")


def test_a_trial_without_cells_measures_every_level() -> None:
    assert cells_of(TRIAL, (1, 4)) == (PlannedCell(concurrency=1), PlannedCell(concurrency=4))


def bench_of(server: RunningServer) -> Bench:
    return Bench(
        adapter=EmbeddedAdapter(),
        config=OFF,
        server=server,
        target=LoadTarget(endpoint=server.endpoint, model=""),
        clock=SystemClock(),
        hang_s=5.0,
    )


def test_a_search_without_a_limit_leaves_prompts_for_what_comes_after(tmp_path: Path) -> None:
    pool = simulated_pool(num_prompts=200)
    books = {share: PlanBook(pool, (1, 4), (), lambda _plans: None) for share in (0.6, 1.0, 0.01)}
    with running_simulation(tmp_path) as server:
        for share, book in books.items():
            book.size(bench_of(server), budget_s=None, num_settings=1, launch_s=0.5, share=share)
    used = {
        share: sum(len(plan.warmup) + len(plan.requests) for plan in book.plans)
        for share, book in books.items()
    }
    skip = num_pilot_prompts(pool, (1, 4))
    assert used == {0.6: int(0.6 * (200 - skip)), 1.0: 200 - skip, 0.01: 2 * 5 + 2}  # the fewest, whatever


def test_the_search_is_sized_once_and_other_cells_are_planned_when_asked_for(tmp_path: Path) -> None:
    kept: list[tuple[LoadPlan, ...]] = []
    pool = simulated_pool(num_prompts=400)
    book = PlanBook(pool, (1, 4), (), kept.append)
    with running_simulation(tmp_path) as server:
        bench = bench_of(server)
        book.size(bench, budget_s=4.0, num_settings=1, launch_s=0.5)
        book.size(bench, budget_s=400.0, num_settings=1, launch_s=0.5)
    search = book.of(TRIAL)
    assert [(plan.concurrency, plan.part) for plan in search] == [(1, "search"), (4, "search")]
    assert kept == [search]
    confirm = Trial(id=TrialId(2), config=OFF, role="confirm", cells=(FRESH, PlannedCell(concurrency=4)))
    fresh, anchor = book.of(confirm)
    assert (fresh.concurrency, fresh.part) == (2, "fresh")
    assert anchor == search[1]
    assert kept == [search, (fresh,)]
    later = PlanBook(pool, (1, 4), book.plans, kept.append)
    assert later.of(confirm) == (fresh, anchor)
    assert len(kept) == 2
