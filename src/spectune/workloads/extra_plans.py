"""Plans beyond the search's: fresh prompts, levels in between, a load that goes up and down. Pure.

A fresh plan is as long as the search's of its level; between two levels the length is interpolated in
log(concurrency). Prompts come after all that was planned before. Where the workload has too few left for all
that is asked for, every plan gets shorter by the same share, to two waves at least, so that some are left for
later. Where even that is too much, a plan takes up the prompts again from the beginning: whoever compares the
plans sees that they are not fresh.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from spectune.domain.trial import PlannedCell
from spectune.domain.workload import LoadPlan, Part
from spectune.workloads.load_plan import LevelSize, plan_levels
from spectune.workloads.prompts import PromptPool

_LEAST_WAVES, _PEAK_WAVES, _FOOT_REQUESTS = 2, 2, 6
_SHARE_AT_ONCE = 0.85  # of the prompts left, where they do not suffice


def extra_plans(
    pool: PromptPool, plans: Sequence[LoadPlan], cells: Sequence[PlannedCell], *, skip: int
) -> tuple[LoadPlan, ...]:
    """Plans for those of the cells that have none yet, in their order.

    Args:
        pool: the workload's prompts.
        plans: all that were planned so far, the search's among them.
        cells: what is to be measured.
        skip: prompts at the head of the pool that were used before any plan.
    """
    found: list[LoadPlan] = []
    planned = {_cell(plan) for plan in plans}
    wanted = [cell for cell in dict.fromkeys(cells) if cell not in planned]
    left = len(pool.prompts) - skip - sum(len(plan.warmup) + len(plan.requests) for plan in plans)
    share = _share(plans, wanted, left)
    for cell in wanted:
        used = skip + sum(len(plan.warmup) + len(plan.requests) for plan in (*plans, *found))
        if cell.part == "ramp":
            found.append(_ramp(pool, plans, cell, used))
        else:
            found.append(_plan(pool, _shortened(_size(plans, cell), share), cell.part, used))
    return tuple(found)


def _cell(plan: LoadPlan) -> PlannedCell:
    return PlannedCell(concurrency=plan.concurrency, part=plan.part)


def _share(plans: Sequence[LoadPlan], wanted: Sequence[PlannedCell], left: int) -> float:
    """What plans keep of their length so that the prompts left go round; loads up and down stay whole."""
    lowest = min((plan.concurrency for plan in plans), default=1)
    sizes = [_size(plans, cell) for cell in wanted if cell.part != "ramp"]
    loads = [_ramp_size(cell.concurrency, lowest) for cell in wanted if cell.part == "ramp"]
    fixed = sum(size.num_warmup for size in sizes) + sum(
        load.num_warmup + load.num_requests for load in loads
    )
    asked = sum(size.num_requests for size in sizes)
    if not asked or asked + fixed <= left:
        return 1.0
    return max((_SHARE_AT_ONCE * left - fixed) / asked, 0.0)


def _shortened(size: LevelSize, share: float) -> LevelSize:
    least = min(_LEAST_WAVES * size.concurrency, size.num_requests)
    return replace(size, num_requests=max(math.floor(share * size.num_requests), least))


def _plan(pool: PromptPool, size: LevelSize, part: Part, used: int) -> LoadPlan:
    prompts, count = pool.prompts, len(pool.prompts)
    left = count - used - size.num_warmup
    least = min(_LEAST_WAVES * size.concurrency, size.num_requests)
    if left >= least:
        size = replace(size, num_requests=min(size.num_requests, left))
    else:  # the prompts are used up: begin again, with no more than there are
        used %= count
        num_warmup = min(size.num_warmup, max(count - size.num_requests, 1))
        size = replace(size, num_warmup=num_warmup, num_requests=min(size.num_requests, count - num_warmup))
        pool = replace(pool, prompts=prompts[used:] + prompts[:used])
        used = 0
    (plan,) = plan_levels(pool, [size], skip=used)
    return replace(plan, part=part)


def _ramp(pool: PromptPool, plans: Sequence[LoadPlan], cell: PlannedCell, used: int) -> LoadPlan:
    """A few requests at the lowest level, two waves at the peak, a few at the lowest again."""
    lowest = min(plan.concurrency for plan in plans)
    peak = cell.concurrency
    plan = _plan(pool, _ramp_size(peak, lowest), "ramp", used)
    foot = min(_foot(lowest), max((len(plan.requests) - peak) // 2, 1))
    top = len(plan.requests) - 2 * foot
    return replace(plan, ramp=((0, min(lowest, peak)), (foot, peak), (foot + top, min(lowest, peak))))


def _ramp_size(peak: int, lowest: int) -> LevelSize:
    num_requests = 2 * _foot(lowest) + _PEAK_WAVES * peak
    return LevelSize(concurrency=peak, num_requests=num_requests, num_warmup=peak, spread_s=0.0)


def _foot(lowest: int) -> int:
    return max(_FOOT_REQUESTS, 2 * lowest)


def _size(plans: Sequence[LoadPlan], cell: PlannedCell) -> LevelSize:
    search = sorted((plan for plan in plans if plan.part == "search"), key=lambda plan: plan.concurrency)
    below = [plan for plan in search if plan.concurrency <= cell.concurrency]
    above = [plan for plan in search if plan.concurrency >= cell.concurrency]
    low, high = below[-1] if below else search[0], above[0] if above else search[-1]
    num_requests = _between(cell.concurrency, low, high)
    return LevelSize(
        concurrency=cell.concurrency,
        num_requests=max(num_requests, _LEAST_WAVES * cell.concurrency),
        num_warmup=cell.concurrency if len(high.warmup) > 1 or high.concurrency == 1 else 1,
        spread_s=max(request.start_after_s for request in high.requests),
    )


def _between(concurrency: int, low: LoadPlan, high: LoadPlan) -> int:
    """Requests at a level, log-log between its neighbours' plans."""
    if low.concurrency == high.concurrency:
        return len(low.requests)
    share = math.log(concurrency / low.concurrency) / math.log(high.concurrency / low.concurrency)
    return round(math.exp((1 - share) * math.log(len(low.requests)) + share * math.log(len(high.requests))))
