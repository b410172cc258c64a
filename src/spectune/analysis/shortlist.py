"""What is worth measuring again: the recommended setting, its rivals, the changes between them, a schedule.

The finalists come from the search alone, so that they stay the same while they are measured again; the
changes and the schedule come from everything measured so far, so that refined levels narrow them.
"""

import math
from itertools import pairwise

from spectune.analysis.crossover import Crossover, find_break_even, find_crossovers
from spectune.analysis.launches import capacities
from spectune.analysis.recommendation import choose_setting
from spectune.analysis.refining import open_gaps
from spectune.analysis.study_fit import fit_study, of_search
from spectune.analysis.winners import Winner, contested, find_winners
from spectune.domain.schedule import Schedule, ScheduleRange
from spectune.domain.shortlist import Shortlist
from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import StudyHistory


def shortlist(history: StudyHistory) -> Shortlist:
    """The finalists as far as the history tells them."""
    study = history.study
    fits, search = fit_study(history).levels, of_search(history)
    searched = fits if search is history else fit_study(search).levels
    chosen = choose_setting(study, searched)
    recommended = None if chosen is None else chosen.config
    wanted = [OFF] if any(OFF in fit.settings for fit in searched.values()) else []
    found = contested(find_winners(searched, study.concurrency))
    wanted += _partners(found, recommended)
    wanted += [winner.config for winner in found]
    winners = contested(find_winners(fits, study.concurrency))
    crossovers = find_crossovers(winners, fits)
    gaps = open_gaps(history, fits, crossovers, find_break_even(study.concurrency, fits))
    schedule = make_schedule(winners, crossovers, capacities(history))
    return Shortlist(
        recommended=recommended,
        rivals=tuple(config for config in dict.fromkeys(wanted) if config != recommended),
        gaps=tuple(sorted(gaps, key=lambda gap: recommended not in (gap.first, gap.second))),
        schedule=schedule,
        schedule_config=None if schedule is None else _most(winners, schedule),
    )


def _partners(winners: tuple[Winner, ...], recommended: SpecConfig | None) -> list[SpecConfig]:
    """Those that meet the recommended setting where the best one changes: for its changes to be narrowed."""
    changes = [(lower.config, upper.config) for lower, upper in pairwise(winners)]
    return [config for change in changes if recommended in change for config in change]


def make_schedule(
    winners: tuple[Winner, ...], crossovers: tuple[Crossover, ...], capacities: dict[SpecConfig, int]
) -> Schedule | None:
    """The winners as steps by batch size.

    An edge lies in the geometric middle of its change. A server sized for the most steps runs no more than
    its capacity at once, so no batch is larger: changes above it cannot be scheduled.

    Args:
        winners: one per level, by ascending concurrency.
        crossovers: the changes between them, as narrow as they were measured; in between others may be best.
        capacities: most sequences each setting runs at once, where known.
    """
    met = [config for change in crossovers for config in (change.from_config, change.to_config)]
    configs = dict.fromkeys([*(winner.config for winner in winners), *met])
    methods = {(config.method, config.topk) for config in configs if not config.is_off}
    if len(configs) < 2 or len(methods) != 1 or next(iter(methods))[1] != 1:
        return None
    most = max(configs, key=lambda config: config.num_steps)
    limit = capacities.get(most, winners[-1].concurrency)
    edges = [(round_down_middle(change.low, change.high), change.to_config) for change in crossovers]
    steps = [(0, winners[0].config.num_steps)]
    steps += [(edge, config.num_steps) for edge, config in edges if edge < limit]
    if len(steps) < 2:
        return None
    ends = [edge for edge, _ in steps[1:]]
    return Schedule(
        ranges=tuple(
            ScheduleRange(low=edge + 1, high=end, num_steps=num_steps)
            for (edge, num_steps), end in zip(steps, [*ends, None], strict=True)
        )
    )


def _most(winners: tuple[Winner, ...], schedule: Schedule) -> SpecConfig:
    """The chain with the schedule's most steps, by the method of the winners."""
    method = next(winner.config.method for winner in winners if not winner.config.is_off)
    return SpecConfig.chain(method, schedule.max_steps)


def round_down_middle(low: int, high: int) -> int:
    """The last batch size below the geometric middle, at least `low`.

    >>> round_down_middle(4, 16), round_down_middle(1, 2), round_down_middle(16, 32)
    (8, 1, 22)
    """
    return max(low, math.isqrt(low * high))
