import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.perfmodel.acceptance_model import curve
from spectune.perfmodel.evidence import Setting
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.planning.goals import Choice, per_level
from spectune.planning.stopping import OpenGoal
from spectune.planning.tree_probe import best_chain, chain_steps, tree_acceptance, with_tree
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

TREE = Setting(num_steps=4, topk=2, num_draft_tokens=9)


def stand(level: int, steps: int) -> OpenGoal:
    choice = Choice(setting=Setting.chain(steps))
    (goal,) = per_level((level,))
    return OpenGoal(goal=goal, best=choice, best_measured=choice, loss=0.0, open_loss=0.0, rivals=())


@given(log_odds=st.floats(-1.0, 3.0), log_decay=st.floats(-5.0, -1.0))
def test_a_tree_that_catches_nothing_accepts_like_the_chain(log_odds: float, log_decay: float) -> None:
    steps = chain_steps(log_odds, log_decay, 5)
    chain = float(curve(np.array([log_odds]), np.array([log_decay]), np.array([5]))[0])
    assert tree_acceptance(steps, 0.0) == pytest.approx(chain)
    assert chain <= tree_acceptance(steps, 0.2) <= tree_acceptance(steps, 0.4) <= 6.0


def test_the_tree_is_expected_to_accept_more_than_its_chain_and_less_than_all() -> None:
    evidence = make_evidence(make_truth(1), make_cells((1, 4), (1, 8)))
    chain = next(r for r in evidence.acceptance if r.setting == Setting.chain(4))
    found = with_tree(evidence, TREE, DEFAULT_PRIOR).acceptance[-1]
    assert found.setting == TREE
    assert 0.99 * chain.acceptance_length < found.acceptance_length < 5.0
    assert found.log_sd >= 0.02


def test_the_tree_goes_with_the_chain_that_is_best_for_most_goals() -> None:
    found = best_chain([stand(1, 5), stand(8, 3), stand(64, 3)])
    assert found == Choice(setting=Setting.chain(3))
    assert best_chain([stand(1, 5), stand(8, 3)]) == Choice(setting=Setting.chain(5))
    assert best_chain([stand(1, 0)]) is None
