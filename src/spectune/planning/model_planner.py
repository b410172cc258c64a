"""The search with the performance model: few launches, each where it is worth most."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import Study, StudyHistory
from spectune.domain.trial import PlannedCell, Role, Trial, TrialId
from spectune.perfmodel.history_evidence import setting_of
from spectune.perfmodel.priors import DEFAULT_PRIOR, Prior
from spectune.planning.goals import Choice
from spectune.planning.grid import config_of, grid_configs
from spectune.planning.planner import Propose, Stop
from spectune.planning.search import Finished, Launch, Situation, decide, draw, stands_of
from spectune.planning.situations import situation_of
from spectune.planning.stopping import Budget
from spectune.planning.tree_probe import best_chain, with_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlanner:
    """Proposes the launch that is worth most for its downtime.

    Attributes:
        budget: tolerance and limits.
        prior: what is known of any deployment.
    """

    budget: Budget = field(default_factory=Budget)
    prior: Prior = DEFAULT_PRIOR

    def next(self, study: Study, history: StudyHistory) -> Propose | Stop:
        """The next trial, or why there is none; equal histories give equal answers."""
        configs = grid_configs(study.space)
        situation = situation_of(study, history.outcomes, configs)
        match decide(situation, prior=self.prior, budget=self.budget, rng=_chance(study, history)):
            case Finished(reason=reason):
                return self._probe_or_stop(study, history, situation, reason)
            case launch:
                config = next(c for c in configs if setting_of(c) == launch.choice.setting)
                return Propose(trial=_trial(study, history, config, launch))

    def candidates(self, study: Study) -> tuple[Trial, ...]:
        """Every setting of the space: longest draft, shortest draft, then the rest by steps."""
        configs = list(grid_configs(study.space))
        drafts = [c for c in configs if not c.is_off]
        first = [drafts[-1], drafts[0]] if len(drafts) > 1 else drafts
        order = [*first, *(c for c in configs if c not in first)]
        return tuple(
            Trial(id=TrialId(number), config=config, role="baseline" if config.is_off else "setting")
            for number, config in enumerate(order, 1)
        )

    def _probe_or_stop(
        self, study: Study, history: StudyHistory, situation: Situation, reason: str
    ) -> Propose | Stop:
        """One tree at the best chain's steps, if the space asks for it and the model lets it win."""
        topk = study.space.probe_topk
        is_probed = any(o.trial.config.topk > 1 for o in history.outcomes)
        if topk is None or study.space.topk > 1 or is_probed or not situation.measured:
            return Stop(reason=reason)
        rng = _chance(study, history)
        chain = best_chain(stands_of(situation, draw(situation, self.prior, rng)))
        if chain is None or not situation.has_room(self.budget):
            why = "off is best" if chain is None else "the budget is used"
            return Stop(reason=f"{reason}; no tree was probed: {why}")
        config = config_of(replace(study.space, topk=topk), chain.setting.num_steps)
        tree = Choice(setting=setting_of(config))
        known = situation_of(study, history.outcomes, (*grid_configs(study.space), config))
        ahead = replace(known, evidence=with_tree(known.evidence, tree.setting, self.prior))
        worst = max(stands_of(ahead, draw(ahead, self.prior, rng)), key=lambda stand: stand.gain_of(tree))
        gain = worst.gain_of(tree)
        if gain <= self.budget.tolerance:
            bound = f"expected to gain {gain:.1%} at most, tolerance {self.budget.tolerance:.1%}"
            return Stop(reason=f"{reason}; {config.label} was not probed: {bound}")
        why = f"one tree beside the chains: it may gain {gain:.1%} ({worst.goal.name})"
        launch = Launch(choice=tree, levels=situation.levels, why=why)
        return Propose(trial=_trial(study, history, config, launch))


def _trial(study: Study, history: StudyHistory, config: SpecConfig, launch: Launch) -> Trial:
    """The launch as a trial; cells are named only where they are not every level."""
    last = max((outcome.trial.id for outcome in history.outcomes), default=0)
    is_again = any(
        outcome.trial.config == config and outcome.trial.lever == launch.choice.lever
        for outcome in history.outcomes
    )
    role: Role = "repeat" if is_again else "setting"
    if config.is_off and not is_again and not launch.choice.lever:
        role = "baseline"
    return Trial(
        id=TrialId(last + 1),
        config=config,
        role=role,
        cells=_cells(study.concurrency, launch.levels),
        lever=launch.choice.lever,
    )


def _cells(levels: Sequence[int], wanted: Sequence[int]) -> tuple[PlannedCell, ...]:
    """Levels as cells; empty for every level of the study."""
    if set(levels) <= set(wanted):
        return ()
    return tuple(PlannedCell(concurrency=level) for level in wanted)


def _chance(study: Study, history: StudyHistory) -> np.random.Generator:
    return np.random.default_rng((study.workload.seed, len(history.outcomes)))
