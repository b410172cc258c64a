"""Which planner a study asks for, and among how many launches it shares its budget."""

import math
import shlex
from dataclasses import replace
from typing import assert_never

from spectune.analysis.shortlist import shortlist
from spectune.domain.study import Study
from spectune.engines.adapter import EngineAdapter
from spectune.planning.grid import GridPlanner, fewest_launches
from spectune.planning.methods import MethodsPlanner
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Planner
from spectune.planning.staged import FINALISTS_OF_ONE_ROUND, StagedPlanner
from spectune.planning.stopping import Budget

MODEL_LAUNCHES = 6  # what the model search needs on most surfaces (benchmarks/planner), and one to spare
FEWEST_MODEL_LAUNCHES = 3
_SEARCH_PROMPTS = 0.6


def staged_planner(study: Study, adapter: EngineAdapter) -> Planner:
    """The search a study asks for, and what proves its answer."""
    return StagedPlanner(
        search=planner_of(study),
        look=shortlist,
        limit_flags=lambda limit: shlex.join(adapter.limit_flags(limit)),
        budget=_budget(study, min_launches=_confirming(study)),
    )


def planner_of(study: Study) -> Planner:
    """The search a study asks for."""
    match study.search.kind:
        case "grid":
            return MethodsPlanner(search=lambda _launches, _downtime_s: GridPlanner())
        case "model":
            budget = _search_budget(study)
            return MethodsPlanner(
                search=lambda launches, downtime_s: ModelPlanner(budget=budget.without(launches, downtime_s))
            )
        case _ as never:
            assert_never(never)


def sized_launches(study: Study) -> int:
    """Launches of the search's length among which the measuring budget is shared."""
    return _searched(study) + _confirming_share(study)


def search_share(study: Study) -> float:
    """Share of the prompts that the search may use: the finalists are launched again on others."""
    return _SEARCH_PROMPTS if study.proof.launched_rounds else 1.0


def fewest(study: Study) -> int:
    """Fewest launches the search can do with, failures aside."""
    return fewest_launches(study.space) if study.search.kind == "grid" else FEWEST_MODEL_LAUNCHES


def _searched(study: Study) -> int:
    settings = study.space.num_settings
    if study.search.kind == "grid":
        return settings
    return min(settings, MODEL_LAUNCHES * (1 + len(study.space.more_methods)))


def _confirming(study: Study) -> int:
    """Launches after the search: the finalists again, and a schedule beside them, which needs a round."""
    finalists = min(study.space.num_settings, FINALISTS_OF_ONE_ROUND)
    return (finalists + study.proof.has_schedule) * study.proof.launched_rounds


def _confirming_share(study: Study) -> int:
    """What the finalists' launches take, in launches of the search: anchor and levels in between are more."""
    levels = len(study.concurrency)
    between = study.proof.refine if levels > 1 else 0
    return math.ceil(_confirming(study) * (levels + 1 + between) / levels)


def _search_budget(study: Study) -> Budget:
    """What the search may use; the rest is for launching the finalists again."""
    whole = _budget(study, min_launches=FEWEST_MODEL_LAUNCHES)
    most = whole.max_launches
    return replace(
        whole,
        max_launches=max(most - _confirming(study), min(most, FEWEST_MODEL_LAUNCHES)),
        max_downtime_s=whole.max_downtime_s * _searched(study) / sized_launches(study),
    )


def _budget(study: Study, *, min_launches: int) -> Budget:
    """The study's limits. A limit on downtime is kept; measuring time gives way to the fewest launches.

    Args:
        study: says its limits.
        min_launches: launches that the measuring time does not cut off.
    """
    rule, limit = study.search, float("inf")
    return Budget(
        tolerance=rule.tolerance,
        max_launches=rule.max_launches or limit,
        max_downtime_s=min(rule.max_downtime_s or limit, study.budget_s or limit),
        min_launches=min_launches if rule.max_downtime_s is None else 0,
    )
