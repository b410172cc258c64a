import numpy as np
import pytest

from spectune.perfmodel.evidence import Cell, Setting
from spectune.perfmodel.fitting import Layout
from spectune.perfmodel.posterior import Posterior
from spectune.planning.acquisition import Candidate, chance_to_win, expected_losses, worth_of
from spectune.planning.goals import Choice, Goal, cells_of, per_level, settled

CHOICES = tuple(Choice(setting=Setting.chain(k)) for k in (1, 2))
(GOAL,) = per_level((1,))
KNOWN = frozenset(cells_of((GOAL,), CHOICES[:1]))


def known(first: float, second: float, sds: tuple[float, float], noise: float) -> Posterior:
    """Two independent normal utilities."""
    rng = np.random.default_rng(0)
    lasting = np.array([first, second]) + np.array(sds) * rng.standard_normal((4000, 2))
    return Posterior(
        cells=cells_of((GOAL,), CHOICES),
        lasting=lasting,
        measured=lasting + noise * rng.standard_normal(lasting.shape),
        theta=np.zeros((4000, 9)),
        layout=Layout(groups=(("", 1),)),
        capacity=(None,) * 4000,
    )


def launch(choice: Choice) -> Candidate:
    return Candidate(choice=choice, concurrency=(1,), restart_s=90, bench_s=10)


def test_value_of_an_exact_measurement_is_the_normal_loss_integral() -> None:
    """Source: E[max(0, X)] of X ~ N(−0.05, 0.1) is 0.1·(phi(0.5) − 0.5·(1 − Phi(0.5))) = 0.01978."""
    posterior = known(0.05, 0.0, (0.0, 0.1), noise=1e-6)
    worth = worth_of(posterior, (GOAL,), CHOICES, launch(CHOICES[1]), KNOWN)
    assert worth.value == pytest.approx(0.01978, rel=0.06)
    assert worth.rate == pytest.approx(worth.value / 100)


def test_the_chance_to_win_is_the_share_of_draws_won() -> None:
    """P[X > 0] of X ~ N(−0.05, 0.1) is 1 − Phi(0.5) = 0.3085."""
    posterior = known(0.05, 0.0, (0.0, 0.1), noise=0.01)
    assert chance_to_win(posterior, GOAL, CHOICES, CHOICES[1]) == pytest.approx(0.3085, abs=0.02)
    assert chance_to_win(posterior, GOAL, CHOICES[1:], CHOICES[1]) == 1.0


def test_a_prediction_is_not_settled_on_before_it_is_measured() -> None:
    posterior = known(0.0, 0.2, (0.01, 0.01), noise=0.01)
    worth = worth_of(posterior, (GOAL,), CHOICES, launch(CHOICES[1]), KNOWN)
    assert worth.value == pytest.approx(0.2, rel=0.02)


def test_a_choice_is_settled_on_only_where_all_levels_of_a_goal_were_measured() -> None:
    mix = Goal(name="mix", weights=((1, 1.0), (8, 1.0)))
    cells = frozenset(cells_of((mix,), CHOICES))
    assert settled(mix, CHOICES, cells) == (0, 1)
    partly = cells - {Cell(setting=CHOICES[1].setting, concurrency=8)}
    assert settled(mix, CHOICES, partly) == (0,)


def test_measuring_what_is_known_or_drowned_in_noise_is_worth_nothing() -> None:
    assert (
        worth_of(known(0.05, 0.0, (1e-9, 0.1), 0.01), (GOAL,), CHOICES, launch(CHOICES[0]), KNOWN).value
        < 1e-3
    )
    assert (
        worth_of(known(0.05, 0.0, (0.0, 0.01), 5.0), (GOAL,), CHOICES, launch(CHOICES[1]), KNOWN).value < 1e-3
    )


def test_the_running_server_is_worth_more_per_second() -> None:
    posterior = known(0.05, 0.0, (0.0, 0.1), noise=0.01)
    running = Candidate(choice=CHOICES[1], concurrency=(1,), restart_s=0, bench_s=10)
    rates = [worth_of(posterior, (GOAL,), CHOICES, c, KNOWN).rate for c in (launch(CHOICES[1]), running)]
    assert rates[1] == pytest.approx(10 * rates[0])


def test_expected_loss_of_the_better_choice_is_the_smaller() -> None:
    losses = expected_losses(known(0.05, 0.0, (0.02, 0.02), 0.01), GOAL, CHOICES)
    assert 0 <= losses[0] < 0.005 < losses[1]
