import numpy as np

from spectune.perfmodel.evidence import Setting
from spectune.perfmodel.posterior import sample
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.planning.goals import Choice, cells_of, per_level
from spectune.planning.stopping import Budget, OpenGoal, reason_to_stop, stand_of
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

(GOAL,) = per_level((1,))
ONE, TWO = (Choice(setting=Setting.chain(k)) for k in (1, 2))


def stand(loss: float, rivals: tuple[Choice, ...] = (TWO,)) -> OpenGoal:
    return OpenGoal(goal=GOAL, best=TWO, best_measured=ONE, loss=loss, open_loss=loss, rivals=rivals)


def test_a_certain_answer_ends_it() -> None:
    reason = reason_to_stop([stand(0.001), stand(0.004)], Budget(), 2, 0.0)
    assert "expected to gain at most 0.4% (concurrency 1), tolerance 0.5%" in reason


def test_measured_settings_too_close_to_tell_apart_do_not_keep_it_going() -> None:
    close = OpenGoal(goal=GOAL, best=ONE, best_measured=ONE, loss=0.02, open_loss=0.001, rivals=(TWO,))
    assert "expected loss 2.0% at most" in reason_to_stop([close], Budget(), 2, 0.0)


def test_an_uncertain_answer_goes_on_until_the_budget_ends() -> None:
    assert reason_to_stop([stand(0.02)], Budget(), 2, 0.0) == ""
    assert "2 launches were allowed" in reason_to_stop([stand(0.02)], Budget(max_launches=2), 2, 0.0)
    assert "600 s of downtime" in reason_to_stop([stand(0.02)], Budget(max_downtime_s=600), 2, 700.0)


def test_nothing_left_to_measure_ends_it() -> None:
    assert "every setting was measured" in reason_to_stop([stand(0.02, rivals=())], Budget(), 2, 0.0)


def test_a_goal_stands_on_measured_choices_only() -> None:
    theta = make_truth(0)
    theta[8:10] = 4.0, -6.0  # more steps are better
    evidence = make_evidence(theta, make_cells((1, 2), (1, 4)))
    choices = tuple(Choice(setting=Setting.chain(k)) for k in (1, 2, 6))
    posterior = sample(
        evidence, cells_of((GOAL,), choices), prior=DEFAULT_PRIOR, rng=np.random.default_rng(0)
    )
    found = stand_of(posterior, GOAL, choices, frozenset(cells_of((GOAL,), (ONE, TWO))))
    assert found.best.setting.num_steps == 6
    assert found.best_measured == TWO
    assert found.loss >= found.open_loss > 0.1
    assert [c.setting.num_steps for c in found.rivals] == [6]
