"""The plain search: num_steps 0, 1, 2, … one launch each, until every level's optimum is passed.

The curve of speed over num_steps need not have one peak, so the best setting so far must be followed by
two settings that are worse, at every level, before the search stops. A failed setting counts as passed
and is not tried again.
"""

from spectune.domain.spec_config import OFF, SpecConfig
from spectune.domain.study import SearchSpace, Study, StudyHistory
from spectune.domain.trial import Completed, Trial, TrialId, TrialOutcome
from spectune.metrics.summary import settle_levels, summarise_level
from spectune.planning.planner import Propose, Stop

_PASSED_BY = 2


class GridPlanner:
    """Tries a study's settings by ascending num_steps."""

    def next(self, study: Study, history: StudyHistory) -> Propose | Stop:
        """The first setting that was not tried, unless every level's optimum is passed."""
        tried = {outcome.trial.config for outcome in history.outcomes}
        waiting = [config for config in grid_configs(study.space) if config not in tried]
        if not waiting:
            return Stop(reason="every setting of the space was tried")
        if not study.space.is_exhaustive:
            reason = _reason_to_stop(history.outcomes, study.concurrency)
            if reason:
                return Stop(reason=reason)
        known = [outcome.trial.id for outcome in history.outcomes]
        return Propose(trial=_trial(max(known, default=0) + 1, waiting[0]))

    def candidates(self, study: Study) -> tuple[Trial, ...]:
        """Every setting of the space."""
        return tuple(_trial(number, config) for number, config in enumerate(grid_configs(study.space), 1))


def grid_configs(space: SearchSpace) -> tuple[SpecConfig, ...]:
    """The space's settings by ascending num_steps.

    >>> [config.label for config in grid_configs(SearchSpace(method="eagle", num_steps=(0, 2)))]
    ['off', 'eagle 2']
    """
    return tuple(config_of(space, num_steps) for num_steps in space.num_steps)


def fewest_launches(space: SearchSpace) -> int:
    """Launches of the shortest search: the first setting is the best one everywhere, or all are asked for."""
    return len(space.num_steps) if space.is_exhaustive else min(len(space.num_steps), 1 + _PASSED_BY)


def config_of(space: SearchSpace, num_steps: int) -> SpecConfig:
    """The setting of so many steps."""
    if num_steps == 0:
        return OFF
    if space.topk == 1:
        return SpecConfig.chain(space.method, num_steps)
    num_draft_tokens = space.num_draft_tokens
    if num_draft_tokens is None:
        num_draft_tokens = 1 + num_steps * space.topk
    return SpecConfig(
        method=space.method, num_steps=num_steps, topk=space.topk, num_draft_tokens=num_draft_tokens
    )


def _trial(number: int, config: SpecConfig) -> Trial:
    return Trial(id=TrialId(number), config=config, role="baseline" if config.is_off else "setting")


def _reason_to_stop(outcomes: tuple[TrialOutcome, ...], concurrency: tuple[int, ...]) -> str:
    speeds = [_speeds(outcome) for outcome in outcomes]
    if not any(speeds):
        if len(speeds) >= _PASSED_BY:
            return f"none of the first {len(speeds)} settings could be measured"
        return ""
    if all(_is_passed(speeds, level) for level in concurrency):
        return "every level's best setting was followed by two that were no better"
    return ""


def _is_passed(speeds: list[dict[int, float]], level: int) -> bool:
    """Whether two or more settings came after the level's best."""
    measured = [index for index, by_level in enumerate(speeds) if level in by_level]
    if not measured:
        return True
    best = max(measured, key=lambda index: speeds[index][level])
    return len(speeds) - 1 - best >= _PASSED_BY


def _speeds(outcome: TrialOutcome) -> dict[int, float]:
    """Tokens/s by level; empty unless the trial completed."""
    if not isinstance(outcome, Completed):
        return {}
    summaries = [summarise_level(level) for level in settle_levels(outcome.levels)]
    return {s.concurrency: s.output_tps for s in summaries if s.output_tps is not None}
