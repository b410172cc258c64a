from dataclasses import replace

import pytest

from spectune.analysis.answers import answer
from spectune.cli.planners import (
    MODEL_LAUNCHES,
    fewest,
    planner_of,
    search_share,
    sized_launches,
    staged_planner,
)
from spectune.domain.shortlist import is_narrow
from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import NO_PROOF, ProofRule, SearchRule, Study, StudyHistory
from spectune.domain.trial import Completed, PlannedCell, Trial, TrialOutcome
from spectune.engines.embedded import EmbeddedAdapter
from spectune.planning.grid import GridPlanner
from spectune.planning.methods import MethodsPlanner
from spectune.planning.model_planner import ModelPlanner
from spectune.planning.planner import Planner, Propose, Stop
from spectune.planning.staged import StagedPlanner
from spectune.testing.simulated_engine import SimulatedEngine
from spectune.testing.study_values import make_effective, make_history, make_level, make_study

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
    assert sized_launches(study) == 2 * MODEL_LAUNCHES + 5  # three finalists with an anchor each


def test_the_search_leaves_the_finalists_their_share_of_the_budget() -> None:
    assert sized_launches(STUDY) == MODEL_LAUNCHES + 5
    search = search_of(STUDY)
    assert isinstance(search, ModelPlanner)
    assert search.budget.max_downtime_s == 240.0 * MODEL_LAUNCHES / (MODEL_LAUNCHES + 5)
    staged = staged_planner(STUDY, EmbeddedAdapter())
    assert isinstance(staged, StagedPlanner)
    assert staged.budget.max_downtime_s == 240.0
    assert staged.limit_flags(12) == "--max-running-requests 12"


def test_a_schedule_has_its_share_too_for_it_was_asked_for() -> None:
    """On a real GPU the budget was shared among the others alone, and none was left for the schedule."""
    for rounds in (0, 1):  # a schedule needs one round, to be set against something
        study = replace(STUDY, proof=ProofRule(rounds=rounds, has_schedule=True))
        assert sized_launches(study) == MODEL_LAUNCHES + 6  # 4 · 3 cells, in launches of 2
        staged = staged_planner(study, EmbeddedAdapter())
        assert isinstance(staged, StagedPlanner)
        assert staged.budget.min_launches == 4
    assert sized_launches(replace(STUDY, proof=ProofRule(rounds=2, has_schedule=True))) == MODEL_LAUNCHES + 12


def test_levels_in_between_have_their_share_of_the_budget() -> None:
    study = replace(STUDY, concurrency=(1, 4, 16, 32), proof=ProofRule(rounds=1, refine=2))
    assert sized_launches(study) == MODEL_LAUNCHES + 6  # 3 · 7 cells, in launches of 4


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
    assert (search_share(study), search_share(STUDY)) == (1.0, 0.6)
    search = search_of(study)
    assert isinstance(search, ModelPlanner)
    assert search.budget.max_downtime_s == 240.0


def test_a_grid_is_sized_for_every_setting() -> None:
    study = replace(STUDY, search=SearchRule(kind="grid"), proof=ProofRule(rounds=2))
    assert isinstance(search_of(study), GridPlanner)
    assert sized_launches(study) == 9 + 9
    assert fewest(study) >= 1


def measured(engine: SimulatedEngine, study: Study, trial: Trial) -> Completed:
    """What a server of known truth gives, without noise."""
    cells = trial.cells or tuple(PlannedCell(concurrency=level) for level in study.concurrency)
    return Completed(
        trial=trial,
        effective=replace(make_effective(trial.config), max_running_requests=engine.capacity(trial.config)),
        launch_s=1.0,
        levels=tuple(
            make_level(
                cell.concurrency,
                engine.output_tps(trial.config, cell.concurrency),
                num_requests=max(4 * cell.concurrency, 20),
                num_steps=trial.config.num_steps,
                part=cell.part,
            )
            for cell in cells
        ),
    )


def run(engine: SimulatedEngine, study: Study) -> StudyHistory:
    planner, outcomes = staged_planner(study, EmbeddedAdapter()), list[TrialOutcome]()
    while True:
        match planner.next(study, make_history(study, tuple(outcomes), finished="")):
            case Stop(reason=reason):
                return make_history(study, tuple(outcomes), finished=reason)
            case Propose(trial=trial):
                outcomes.append(measured(engine, study, trial))


@pytest.mark.parametrize(
    ("acceptance", "num_steps", "concurrency"),
    [
        (0.30, (0, 2), (1, 4, 16, 32)),
        (0.366, (0, 2), (1, 32)),
        (0.42, (0, 1, 2, 4), (1, 4, 16, 32)),
        (0.366, (0, 1, 2, 4), (1, 32)),
    ],
)
def test_a_change_is_narrowed_to_where_it_truly_is(
    acceptance: float, num_steps: tuple[int, ...], concurrency: tuple[int, ...]
) -> None:
    engine = SimulatedEngine(acceptance=acceptance)
    study = replace(
        make_study(num_steps=num_steps, concurrency=concurrency, is_exhaustive=True),
        budget_s=None,
        proof=ProofRule(rounds=2, refine=3),
    )
    history = run(engine, study)
    found = answer(history, lambda _config: ())
    assert found.break_even.concurrency is not None
    low, high = found.break_even.concurrency
    assert is_narrow(low, high)
    configs = [SpecConfig.chain("eagle", steps) for steps in num_steps]

    def lead(level: int) -> float:
        off, *others = (engine.output_tps(config, level) for config in configs)
        return max(others) / off

    assert lead(low) > 0.99
    assert lead(high) < 1.01
    assert found.whys_wide == {} or sum(o.trial.role == "refine" for o in history.outcomes) == 6
