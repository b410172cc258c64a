from dataclasses import replace

from spectune.cli.planners import MODEL_LAUNCHES, fewest, planner_of, sized_launches, staged_planner
from spectune.domain.study import NO_PROOF, ProofRule, SearchRule, Study
from spectune.engines.embedded import EmbeddedAdapter
from spectune.planning.grid import GridPlanner
from spectune.planning.methods import MethodsPlanner
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Planner
from spectune.planning.staged import StagedPlanner
from spectune.testing.study_values import make_study

STUDY = replace(
    make_study(num_steps=tuple(range(9))),
    budget_s=240.0,
    search=SearchRule(kind="model"),
    proof=ProofRule(rounds=1),
)


def search_of(study: Study) -> Planner:
    planner = planner_of(study)
    assert isinstance(planner, MethodsPlanner)
    return planner.search(0, 0.0)


def test_every_method_has_its_launches() -> None:
    study = replace(STUDY, space=replace(STUDY.space, more_methods=("ngram",)))
    assert sized_launches(study) == 2 * MODEL_LAUNCHES + 4  # three finalists with an anchor each


def test_the_search_leaves_the_finalists_their_share_of_the_budget() -> None:
    assert sized_launches(STUDY) == MODEL_LAUNCHES + 4
    search = search_of(STUDY)
    assert isinstance(search, ModelPlanner)
    assert search.budget.max_downtime_s == 240.0 * MODEL_LAUNCHES / (MODEL_LAUNCHES + 4)
    staged = staged_planner(STUDY, EmbeddedAdapter())
    assert isinstance(staged, StagedPlanner)
    assert staged.budget.max_downtime_s == 240.0
    assert staged.limit_flags(12) == "--max-running-requests 12"


def test_levels_in_between_have_their_share_of_the_budget() -> None:
    study = replace(STUDY, concurrency=(1, 4, 16, 32), proof=ProofRule(rounds=1, refine=2))
    assert sized_launches(study) == MODEL_LAUNCHES + 5  # 3 · 7 cells, in launches of 4


def test_launches_are_kept_for_the_finalists_too() -> None:
    def most(launches: int) -> float:
        search = search_of(replace(STUDY, search=SearchRule(kind="model", max_launches=launches)))
        assert isinstance(search, ModelPlanner)
        return search.budget.max_launches

    assert [most(launches) for launches in (2, 3, 4, 5, 8)] == [2, 3, 3, 3, 5]


def test_measuring_time_gives_way_to_the_fewest_launches_but_a_limit_on_downtime_does_not() -> None:
    slow = search_of(replace(STUDY, budget_s=1.0))
    assert isinstance(slow, ModelPlanner)
    assert slow.budget.has_room(2, 600.0)
    assert not slow.budget.has_room(3, 600.0)
    limited = search_of(replace(STUDY, search=SearchRule(kind="model", max_downtime_s=60.0)))
    assert isinstance(limited, ModelPlanner)
    assert not limited.budget.has_room(1, 60.0)


def test_without_proof_the_search_has_it_all() -> None:
    study = replace(STUDY, proof=NO_PROOF)
    search = search_of(study)
    assert isinstance(search, ModelPlanner)
    assert search.budget.max_downtime_s == 240.0


def test_a_grid_is_sized_for_every_setting() -> None:
    study = replace(STUDY, search=SearchRule(kind="grid"), proof=ProofRule(rounds=2))
    assert isinstance(search_of(study), GridPlanner)
    assert sized_launches(study) == 9 + 9
    assert fewest(study) >= 1
