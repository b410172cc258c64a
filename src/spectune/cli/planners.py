"""Which planner a study asks for, and among how many launches it shares its budget."""

import shlex
from typing import assert_never

from spectune.analysis.shortlist import shortlist
from spectune.domain.study import Study
from spectune.engines.adapter import EngineAdapter
from spectune.planning.grid import GridPlanner, fewest_launches
from spectune.planning.methods import MethodsPlanner
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Planner
from spectune.planning.staged import StagedPlanner
from spectune.planning.stopping import Budget

MODEL_LAUNCHES = 6  # what the model search needs on most surfaces (benchmarks/planner), and one to spare
FEWEST_MODEL_LAUNCHES = 3


def staged_planner(study: Study, adapter: EngineAdapter) -> Planner:
    """The search a study asks for, and what proves its answer."""
    return StagedPlanner(
        search=planner_of(study),
        look=shortlist,
        limit_flags=lambda limit: shlex.join(adapter.limit_flags(limit)),
        budget=_budget(study),
    )


def planner_of(study: Study) -> Planner:
    """The search a study asks for."""
    match study.search.kind:
        case "grid":
            return MethodsPlanner(search=GridPlanner())
        case "model":
            return MethodsPlanner(search=ModelPlanner(budget=_budget(study, share=_search_share(study))))
        case _ as never:
            assert_never(never)


def sized_launches(study: Study) -> int:
    """Launches among which the measuring budget is shared."""
    return _searched(study) + _confirming(study)


def fewest(study: Study) -> int:
    """Fewest launches the search can do with, failures aside."""
    return fewest_launches(study.space) if study.search.kind == "grid" else FEWEST_MODEL_LAUNCHES


def _searched(study: Study) -> int:
    settings = study.space.num_settings
    if study.search.kind == "grid":
        return settings
    return min(settings, MODEL_LAUNCHES * (1 + len(study.space.more_methods)))


def _confirming(study: Study) -> int:
    return min(study.space.num_settings, 2) * study.proof.rounds


def _search_share(study: Study) -> float:
    """Share of the budget that the search may use; the rest is for launching the finalists again."""
    return _searched(study) / sized_launches(study)


def _budget(study: Study, *, share: float = 1.0) -> Budget:
    rule, limit = study.search, float("inf")
    return Budget(
        tolerance=rule.tolerance,
        max_launches=rule.max_launches or limit,
        max_downtime_s=share * min(rule.max_downtime_s or limit, study.budget_s or limit),
    )
