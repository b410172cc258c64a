"""A study's history → where its search stands."""

from collections.abc import Sequence

import numpy as np

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study
from spectune.domain.trial import Completed, Failed, TrialOutcome
from spectune.perfmodel.evidence import Cell, Evidence
from spectune.perfmodel.history_evidence import evidence_of, lessons_of, setting_of
from spectune.planning.costs import downtime_s, num_launches
from spectune.planning.goals import Choice, choice_of
from spectune.planning.search import Situation
from spectune.planning.study_goals import goals_of

_DEFAULT_COSTS = (300.0, 60.0)  # seconds of a restart and of a level, until one was measured


def situation_of(study: Study, outcomes: Sequence[TrialOutcome], configs: Sequence[SpecConfig]) -> Situation:
    """What is known, what may be launched, what it costs."""
    lessons = lessons_of(outcomes)
    goals = goals_of(study, lessons)
    levers = tuple(lever for lever in study.space.levers if lever)
    evidence = evidence_of(lessons, [setting_of(c) for c in configs], levers)
    measured = frozenset(choice_of(row.cell) for row in evidence.speeds)
    launched = tuple(dict.fromkeys(_choice(outcome) for outcome in outcomes))
    offered = [Choice(setting=setting_of(c)) for c in configs]
    offered += [
        Choice(setting=choice.setting, lever=lever)
        for lever in levers
        for choice in offered
        if not choice.setting.is_off and _binds(evidence, choice, study.concurrency)
    ]
    choices = tuple(
        choice
        for choice in offered
        if choice in measured or (choice not in launched and not _cannot_fit(choice, outcomes))
    )
    wanted = sorted({level for goal in goals for level in goal.concurrency})
    tried = _tried(outcomes, measured & frozenset(choices), wanted)
    missing = {c: tuple(level for level in wanted if level not in done) for c, done in tried.items()}
    return Situation(
        evidence=evidence,
        choices=choices,
        measured=measured & frozenset(choices),
        launched=launched,
        goals=goals,
        missing={choice: levels for choice, levels in missing.items() if levels},
        tried=frozenset(
            Cell(setting=choice.setting, concurrency=level, lever=choice.lever)
            for choice, done in tried.items()
            for level in done
        ),
        num_launches=num_launches(outcomes),
        costs=_costs(outcomes),
        downtime_s=downtime_s(outcomes),
        needs_off=True,
    )


def _choice(outcome: TrialOutcome) -> Choice:
    return Choice(setting=setting_of(outcome.trial.config), lever=outcome.trial.lever)


def _binds(evidence: Evidence, choice: Choice, levels: Sequence[int]) -> bool:
    """Whether some level may ask for more requests than run at once under the command's own flags."""
    cell = Cell(setting=choice.setting, concurrency=levels[-1])
    return any(curve.limit(cell) < levels[-1] for curve in evidence.capacity)


def _tried(
    outcomes: Sequence[TrialOutcome], measured: frozenset[Choice], levels: Sequence[int]
) -> dict[Choice, frozenset[int]]:
    """Levels of the goals at which each measured choice was tried; all of them where it once failed."""
    tried: dict[Choice, set[int]] = {choice: set() for choice in measured}
    for outcome in outcomes:
        cells = outcome.trial.cells if isinstance(outcome, Completed) else ()
        measured_now = {level.concurrency for level in getattr(outcome, "levels", ())}
        asked = {cell.concurrency for cell in cells} | measured_now or set(levels)
        tried.get(_choice(outcome), set()).update(asked & set(levels))
    return {choice: frozenset(done) for choice, done in tried.items()}


def _cannot_fit(choice: Choice, outcomes: Sequence[TrialOutcome]) -> bool:
    """Whether a setting with no more draft tokens ran out of memory."""
    return any(
        isinstance(outcome, Failed)
        and outcome.kind == "out_of_memory"
        and outcome.trial.lever == choice.lever
        and setting_of(outcome.trial.config).num_draft_tokens <= choice.setting.num_draft_tokens
        for outcome in outcomes
    )


def _costs(outcomes: Sequence[TrialOutcome]) -> tuple[float, float]:
    """Mean measured seconds of a restart and of a level."""
    done = [outcome for outcome in outcomes if isinstance(outcome, Completed)]
    if not done:
        return _DEFAULT_COSTS
    levels = [level.wall_s for outcome in done for level in outcome.levels]
    return float(np.mean([outcome.launch_s for outcome in done])), float(np.mean(levels)) if levels else 0.0
