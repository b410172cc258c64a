from dataclasses import replace

from spectune.domain.spec_config import SpecConfig
from spectune.domain.study import SearchSpace, Study
from spectune.domain.trial import Completed, Trial, TrialOutcome
from spectune.planning.grid import GridPlanner
from spectune.planning.methods import MethodsPlanner, studies_of
from spectune.planning.planner import Planner, Propose, Stop
from spectune.testing.study_values import make_effective, make_history, make_level, make_study

SPACE = SearchSpace(method="eagle", num_steps=(0, 1, 2), more_methods=("ngram",), is_exhaustive=True)
STUDY = replace(make_study(), space=SPACE, concurrency=(1,))


def completed(trial: Trial) -> TrialOutcome:
    return Completed(
        trial=trial, effective=make_effective(trial.config), launch_s=1.0, levels=(make_level(1, 100.0),)
    )


def run(study: Study) -> tuple[list[Trial], str]:
    planner = MethodsPlanner(search=lambda _launches, _seconds: GridPlanner())
    outcomes: tuple[TrialOutcome, ...] = ()
    while True:
        match planner.next(study, make_history(study, outcomes, finished="")):
            case Stop(reason=reason):
                return [outcome.trial for outcome in outcomes], reason
            case Propose(trial=trial):
                outcomes = (*outcomes, completed(trial))


def test_every_method_is_searched_and_off_is_launched_once() -> None:
    trials, reason = run(STUDY)
    assert [trial.config.label for trial in trials] == ["off", "eagle 1", "eagle 2", "ngram 1", "ngram 2"]
    assert [trial.id for trial in trials] == [1, 2, 3, 4, 5]
    assert (
        reason == "eagle: every setting of the space was tried; ngram: every setting of the space was tried"
    )
    planned = MethodsPlanner(search=lambda _launches, _seconds: GridPlanner()).candidates(STUDY)
    assert [trial.config for trial in planned] == [trial.config for trial in trials]


def test_each_search_is_told_what_the_others_took() -> None:
    told: list[tuple[int, float]] = []

    def search(launches: int, seconds: float) -> Planner:
        told.append((launches, round(seconds, 3)))
        return GridPlanner()

    trials, _ = run(STUDY)
    history = make_history(STUDY, tuple(completed(trial) for trial in trials[:4]), finished="")
    assert isinstance(MethodsPlanner(search=search).next(STUDY, history), Propose)
    (eagle, ngram) = told
    assert eagle[0] == 1  # ngram 1
    assert ngram[0] == 2  # eagle 1 and 2
    assert 0 < eagle[1] < ngram[1]


def test_one_method_is_the_search_itself() -> None:
    study = replace(STUDY, space=replace(SPACE, more_methods=()))
    trials, reason = run(study)
    assert trials[-1].config == SpecConfig.chain("eagle", 2)
    assert reason == "every setting of the space was tried"
    assert list(studies_of(study)) == [study]
