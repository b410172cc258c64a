"""The study's load plans: the first trial sizes and fixes them, a later one may ask for more."""

from collections.abc import Callable, Sequence

from spectune.domain.trial import PlannedCell, Trial
from spectune.domain.workload import LoadPlan
from spectune.tuning.bench import Bench
from spectune.tuning.pilot import num_pilot_prompts, run_pilot
from spectune.tuning.sizing import least_prompts, size_levels
from spectune.workloads.extra_plans import extra_plans
from spectune.workloads.load_plan import plan_levels
from spectune.workloads.prompts import PromptPool


class PlanBook:
    """Load plans by cell; equal for every trial that measures the cell."""

    def __init__(
        self,
        pool: PromptPool,
        concurrency: tuple[int, ...],
        plans: tuple[LoadPlan, ...],
        keep: Callable[[tuple[LoadPlan, ...]], None],
    ) -> None:
        """A book.

        Args:
            pool: the workload's prompts.
            concurrency: levels of the search.
            plans: fixed in an earlier sitting, empty when none were.
            keep: called with new plans before the first of them is sent.
        """
        self._pool, self._concurrency, self._keep = pool, concurrency, keep
        self.plans = plans

    def size(
        self, bench: Bench, *, budget_s: float | None, num_settings: int, launch_s: float, share: float = 1.0
    ) -> None:
        """Fixes the search's plans after a first look at the server's speed, unless they are fixed already.

        Args:
            bench: the running server.
            budget_s: measuring seconds of the whole study; None: no limit.
            num_settings: settings that share the budget.
            launch_s: seconds a launch takes.
            share: of the prompts that the search may use; more where it cannot do with so few.

        Raises:
            TrialFailed: the server did not answer the first look.
            ConfigError: the workload has too few prompts.
        """
        if self.plans:
            return
        count = len(self._pool.prompts) - self._skip
        readings = run_pilot(bench, self._pool, self._concurrency)
        sizes = size_levels(
            readings,
            self._concurrency,
            budget_s=budget_s,
            num_settings=num_settings,
            launch_s=launch_s,
            num_prompts=max(int(share * count), min(least_prompts(self._concurrency), count)),
        )
        self._add(plan_levels(self._pool, sizes, skip=self._skip))

    def of(self, trial: Trial) -> tuple[LoadPlan, ...]:
        """What the trial measures, in order; plans it is the first to ask for are fixed and kept."""
        cells = cells_of(trial, self._concurrency)
        self._add(extra_plans(self._pool, self.plans, cells, skip=self._skip))
        by_cell = {PlannedCell(concurrency=plan.concurrency, part=plan.part): plan for plan in self.plans}
        return tuple(by_cell[cell] for cell in cells)

    @property
    def _skip(self) -> int:
        return num_pilot_prompts(self._pool, self._concurrency)

    def _add(self, plans: tuple[LoadPlan, ...]) -> None:
        if plans:
            self.plans = (*self.plans, *plans)
            self._keep(plans)


def cells_of(trial: Trial, concurrency: Sequence[int]) -> tuple[PlannedCell, ...]:
    """What a trial measures: its own cells, or every level of the search."""
    return trial.cells or tuple(PlannedCell(concurrency=level) for level in concurrency)
