"""The search with the performance model: few launches, each where it is worth most."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import Completed, Failed, Trial, TrialId, TrialOutcome
from spectune.perfmodel.priors import DEFAULT_PRIOR, Prior
from spectune.planning.goals import Choice, Goal, per_level
from spectune.planning.grid import grid_configs
from spectune.planning.history_evidence import evidence_of, setting_of
from spectune.planning.planner import Propose, Stop
from spectune.planning.search import Finished, Situation, decide
from spectune.planning.stopping import Budget

_DEFAULT_COSTS = (300.0, 60.0)  # seconds of a restart and of a level, until one was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlanner:
    """Proposes the launch that is worth most for its downtime.

    Attributes:
        budget: tolerance and limits.
        goals: what to be good at; empty for every level of the study.
        prior: what is known of any deployment.
    """

    budget: Budget = field(default_factory=Budget)
    goals: tuple[Goal, ...] = ()
    prior: Prior = DEFAULT_PRIOR

    def next(self, study: Study, history: StudyHistory) -> Propose | Stop:
        """The next trial, or why there is none; equal histories give equal answers."""
        configs = grid_configs(study.space)
        situation = self._situation(study, history, configs)
        rng = np.random.default_rng((study.workload.seed, len(history.outcomes)))
        match decide(situation, prior=self.prior, budget=self.budget, rng=rng):
            case Finished(reason=reason):
                return Stop(reason=reason)
            case launch:
                config = next(c for c in configs if setting_of(c) == launch.choice.setting)
                last = max((outcome.trial.id for outcome in history.outcomes), default=0)
                return Propose(trial=_trial(last + 1, config))

    def candidates(self, study: Study) -> tuple[Trial, ...]:
        """Every setting of the space: longest draft, shortest draft, then the rest by steps."""
        configs = list(grid_configs(study.space))
        drafts = [c for c in configs if not c.is_off]
        first = [drafts[-1], drafts[0]] if len(drafts) > 1 else drafts
        order = [*first, *(c for c in configs if c not in first)]
        return tuple(_trial(number, config) for number, config in enumerate(order, 1))

    def _situation(self, study: Study, history: StudyHistory, configs: Sequence[SpecConfig]) -> Situation:
        outcomes = history.outcomes
        evidence = evidence_of(outcomes, [setting_of(c) for c in configs])
        measured = frozenset(Choice(setting=row.cell.setting) for row in evidence.speeds)
        launched = tuple(dict.fromkeys(Choice(setting=setting_of(o.trial.config)) for o in outcomes))
        choices = tuple(
            choice
            for choice in (Choice(setting=setting_of(c)) for c in configs)
            if choice in measured or (choice not in launched and not _cannot_fit(choice, outcomes))
        )
        return Situation(
            evidence=evidence,
            choices=choices,
            measured=measured & frozenset(choices),
            launched=launched,
            goals=self.goals or per_level(study.concurrency),
            costs=_costs(outcomes),
            downtime_s=_downtime_s(outcomes),
            needs_off=True,
        )


def _trial(number: int, config: SpecConfig) -> Trial:
    return Trial(id=TrialId(number), config=config, role="baseline" if config.is_off else "setting")


def _cannot_fit(choice: Choice, outcomes: Sequence[TrialOutcome]) -> bool:
    """Whether a setting with no more draft tokens ran out of memory."""
    return any(
        isinstance(outcome, Failed)
        and outcome.kind == "out_of_memory"
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


def _downtime_s(outcomes: Sequence[TrialOutcome]) -> float:
    total = 0.0
    for outcome in outcomes:
        if isinstance(outcome, Completed | Failed):
            total += (outcome.launch_s or 0.0) + sum(level.wall_s for level in outcome.levels)
    return total
