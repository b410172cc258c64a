"""What is worth measuring again: the recommended setting, its rivals, the changes between them, a schedule.

The finalists come from the search alone, so that they stay the same while they are measured again; the
changes and the schedule come from everything measured so far, so that refined levels narrow them.
"""

import math

from spectune.analysis.crossover import Crossover, find_crossovers
from spectune.analysis.launches import capacities
from spectune.analysis.recommendation import choose_setting
from spectune.analysis.study_fit import fit_study, of_search
from spectune.analysis.winners import Winner, find_winners
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
    wanted += [winner.config for winner in find_winners(searched, study.concurrency)]
    winners = find_winners(fits, study.concurrency)
    crossovers = find_crossovers(winners, fits)
    schedule = make_schedule(winners, crossovers, capacities(history))
    return Shortlist(
        recommended=recommended,
        rivals=tuple(config for config in dict.fromkeys(wanted) if config != recommended),
        crossings=tuple((c.from_config, c.to_config, c.low, c.high) for c in crossovers),
        schedule=schedule,
        schedule_config=None if schedule is None else _most(winners, schedule),
    )


def make_schedule(
    winners: tuple[Winner, ...], crossovers: tuple[Crossover, ...], capacities: dict[SpecConfig, int]
) -> Schedule | None:
    """The winners as steps by batch size.

    An edge lies in the geometric middle of its change. A server sized for the most steps runs no more than
    its capacity at once, so no batch is larger: changes above it cannot be scheduled.

    Args:
        winners: one per level, by ascending concurrency.
        crossovers: the changes between them, as narrow as they were measured.
        capacities: most sequences each setting runs at once, where known.
    """
    configs = dict.fromkeys(winner.config for winner in winners)
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
