import numpy as np
import pytest

from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import Setting
from spectune.perfmodel.fitting import Layout
from spectune.perfmodel.posterior import Posterior
from spectune.planning.acquisition import Candidate
from spectune.planning.goals import Choice, cells_of, per_level, utility
from spectune.planning.lookahead import Lookahead

CHOICES = tuple(Choice(setting=Setting.chain(k)) for k in (1, 2, 3, 4))
GOALS = per_level((1, 64))
KNOWN = frozenset(cells_of(GOALS, CHOICES[:1]))


def ahead(at_1: tuple[float, ...], at_64: tuple[float, ...]) -> Lookahead:
    """Mean log speeds of the four choices at either level; all but the first are unsure by 0.01."""
    cells = cells_of(GOALS, CHOICES)
    means = np.array([(at_1 if c.concurrency == 1 else at_64)[c.setting.num_steps - 1] for c in cells])
    sds = np.array([0.0 if c.setting.num_steps == 1 else 0.01 for c in cells])
    rng = np.random.default_rng(0)
    lasting: Floats = means + sds * rng.standard_normal((2000, len(cells)))
    posterior = Posterior(
        cells=cells,
        lasting=lasting,
        measured=lasting + 0.001 * rng.standard_normal(lasting.shape),
        theta=np.zeros((2000, 9)),
        layout=Layout(groups=(("", 1),)),
        capacity=(None,) * 2000,
    )
    draws = tuple(utility(posterior, goal, CHOICES) for goal in GOALS)
    return Lookahead(posterior=posterior, goals=GOALS, choices=CHOICES, known=KNOWN, draws=draws)


def launches(restart_s: float = 90.0) -> list[Candidate]:
    return [Candidate(choice=c, concurrency=(1, 64), restart_s=restart_s, bench_s=10.0) for c in CHOICES[1:]]


def steps(found: Lookahead, tolerance: float = 0.005) -> list[int]:
    enough = found.enough(launches(), tolerance)
    return [] if enough is None else [c.choice.setting.num_steps for c in enough.candidates]


def test_two_launches_that_settle_both_goals_go_before_the_compromise() -> None:
    """3 helps either goal most by itself in the mean, but 4 and 2 are wanted in any case."""
    found = ahead(at_1=(0.0, 0.0, 0.08, 0.15), at_64=(0.0, 0.15, 0.08, 0.0))
    single = [float(found.values((c,)).mean()) for c in launches()]
    assert int(np.argmax(single)) == 1
    assert steps(found) == [2, 4]


def test_one_launch_is_enough_where_one_choice_is_best_everywhere() -> None:
    assert steps(ahead(at_1=(0.0, 0.0, 0.15, 0.1), at_64=(0.0, 0.1, 0.15, 0.0))) == [3]


def test_nothing_is_needed_where_nothing_can_be_gained() -> None:
    assert steps(ahead(at_1=(0.2, 0.0, 0.0, 0.0), at_64=(0.2, 0.0, 0.0, 0.0))) == []


def test_a_set_leaves_what_the_others_would_still_gain() -> None:
    found = ahead(at_1=(0.0, 0.0, 0.0, 0.15), at_64=(0.0, 0.1, 0.0, 0.0))
    enough = found.enough(launches(), 0.11)
    assert enough is not None
    assert [c.choice.setting.num_steps for c in enough.candidates] == [4]
    assert enough.left == pytest.approx(0.1, abs=0.01)
    assert enough.cost_s == pytest.approx(100.0)
