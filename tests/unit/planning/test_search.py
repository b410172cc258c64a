from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Evidence, Setting
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.planning.goals import Choice, per_level
from spectune.planning.search import Finished, Launch, Situation, decide
from spectune.planning.stopping import Budget
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

LEVELS = (1, 8, 32)
STEPS = tuple(range(9))


def situation(theta: Floats, launched: tuple[int, ...], *, needs_off: bool = False) -> Situation:
    done = tuple(Choice(setting=Setting.chain(k)) for k in launched)
    evidence = (
        make_evidence(theta, make_cells(launched, LEVELS), noise=0.01) if launched else Evidence(speeds=())
    )
    return Situation(
        evidence=evidence,
        choices=tuple(Choice(setting=Setting.chain(k)) for k in STEPS),
        measured=frozenset(done),
        launched=done,
        goals=per_level(LEVELS),
        needs_off=needs_off,
    )


def step(
    theta: Floats, launched: tuple[int, ...], budget: Budget, *, needs_off: bool = False
) -> Launch | Finished:
    now = situation(theta, launched, needs_off=needs_off)
    return decide(now, prior=DEFAULT_PRIOR, budget=budget, rng=np.random.default_rng(0))


def run(theta: Floats, budget: Budget) -> tuple[int, ...]:
    launched: tuple[int, ...] = ()
    while True:
        match step(theta, launched, budget):
            case Finished():
                return launched
            case launch:
                launched += (launch.choice.setting.num_steps,)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_setting_of_every_level_is_found_in_fewer_launches_than_settings(seed: int) -> None:
    theta = make_truth(seed)
    launched = run(theta, Budget())
    truth = {r.cell: r.output_tps for r in make_evidence(theta, make_cells(STEPS, LEVELS)).speeds}
    for level in LEVELS:
        speeds = {c.setting.num_steps: y for c, y in truth.items() if c.concurrency == level}
        assert max(speeds[k] for k in launched) > 0.97 * max(speeds.values())
    assert launched[:2] == (8, 1)
    assert len(launched) <= 6


def test_the_ends_come_first_where_there_are_several_goals() -> None:
    launch = step(make_truth(1), (8,), Budget())
    assert isinstance(launch, Launch)
    assert launch.choice.setting.num_steps == 1
    assert launch.why == "the shortest draft, so that the model spans all others"


@pytest.mark.parametrize(("odds", "expected"), [(2.0, range(2, 8)), (-1.0, (1,))])
def test_one_goal_gets_the_shortest_draft_second_only_where_it_may_be_the_answer(
    odds: float, expected: Sequence[int]
) -> None:
    """With 88 % of first draft tokens accepted it is the last choice, with 27 % the first."""
    theta = make_truth(1)
    theta[3], theta[7], theta[8] = -2.5, -9.0, odds  # log c, log v, logit a
    now = situation(theta, (8,))
    alone = replace(
        now,
        evidence=make_evidence(theta, make_cells((8,), (1,)), noise=0.01),
        goals=per_level((1,)),
    )
    launch = decide(alone, prior=DEFAULT_PRIOR, budget=Budget(), rng=np.random.default_rng(0))
    assert isinstance(launch, Launch)
    assert launch.choice.setting.num_steps in expected


def test_the_budget_of_launches_is_kept() -> None:
    assert len(run(make_truth(1), Budget(tolerance=-1.0, max_launches=3))) == 3


def test_no_two_launches_of_one_setting() -> None:
    launched = run(make_truth(2), Budget(tolerance=-1.0))
    assert sorted(launched) == list(STEPS)


def test_off_is_measured_before_the_end_where_it_is_the_baseline() -> None:
    theta, easy = make_truth(1), Budget(tolerance=1.0)
    assert isinstance(step(theta, (8, 1), easy), Finished)
    last = step(theta, (8, 1), easy, needs_off=True)
    assert isinstance(last, Launch)
    assert last.choice.setting.is_off


@pytest.mark.parametrize(
    ("budget", "launched"),
    [
        (Budget(tolerance=-1.0, max_launches=2), (8, 0)),
        (Budget(tolerance=-1.0, max_launches=3), (8, 1, 0)),
        (Budget(tolerance=-1.0, max_downtime_s=1440.0), (8, 1, 0)),  # a launch costs 300 + 3 · 60 s
    ],
)
def test_the_last_launch_that_the_budget_allows_is_the_baselines(
    budget: Budget, launched: tuple[int, ...]
) -> None:
    done: tuple[int, ...] = ()
    while True:
        now = situation(make_truth(1), done, needs_off=True)
        now = replace(now, downtime_s=480.0 * len(done))
        match decide(now, prior=DEFAULT_PRIOR, budget=budget, rng=np.random.default_rng(0)):
            case Finished():
                break
            case launch:
                done += (launch.choice.setting.num_steps,)
    assert done == launched


def test_settings_that_all_fail_end_the_search() -> None:
    now = situation(make_truth(1), ())
    failed = Situation(
        evidence=now.evidence, choices=(), measured=frozenset(), launched=now.choices, goals=now.goals
    )
    found = decide(failed, prior=DEFAULT_PRIOR, budget=Budget(), rng=np.random.default_rng(0))
    assert found == Finished(reason="none of the 9 launched settings could be measured")
