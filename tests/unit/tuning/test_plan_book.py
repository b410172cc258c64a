from pathlib import Path

from spectune.clock import SystemClock
from spectune.domain.spec_config import OFF
from spectune.domain.trial import PlannedCell, Trial, TrialId
from spectune.domain.workload import LoadPlan
from spectune.engines.embedded import EmbeddedAdapter
from spectune.loadgen.stream_client import LoadTarget
from spectune.testing.simulation import running_simulation, simulated_pool
from spectune.tuning.bench import Bench
from spectune.tuning.plan_book import PlanBook, cells_of

TRIAL = Trial(id=TrialId(1), config=OFF, role="setting")
FRESH = PlannedCell(concurrency=2, part="fresh")


def test_a_trial_without_cells_measures_every_level() -> None:
    assert cells_of(TRIAL, (1, 4)) == (PlannedCell(concurrency=1), PlannedCell(concurrency=4))


def test_the_search_is_sized_once_and_other_cells_are_planned_when_asked_for(tmp_path: Path) -> None:
    kept: list[tuple[LoadPlan, ...]] = []
    pool = simulated_pool(num_prompts=400)
    book = PlanBook(pool, (1, 4), (), kept.append)
    with running_simulation(tmp_path) as server:
        bench = Bench(
            adapter=EmbeddedAdapter(),
            config=OFF,
            server=server,
            target=LoadTarget(endpoint=server.endpoint, model=""),
            clock=SystemClock(),
            hang_s=5.0,
        )
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
