import numpy as np
import pytest

from spectune.errors import ConfigError
from spectune.perfmodel.evidence import CapacityCurve, Evidence, Setting
from spectune.perfmodel.posterior import Posterior, sample
from spectune.perfmodel.priors import DEFAULT_PRIOR
from spectune.planning.goals import Choice, Goal, cells_of, per_level, utility
from spectune.testing.known_surface import make_cells, make_evidence, make_truth

CHOICES = tuple(Choice(setting=Setting.chain(k)) for k in (1, 2, 4))


def posterior(goals: tuple[Goal, ...], choices: tuple[Choice, ...] = CHOICES) -> Posterior:
    evidence = make_evidence(make_truth(1), make_cells((1, 4), (1, 8, 64)))
    return sample(evidence, cells_of(goals, choices), prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))


def test_a_mix_is_the_weighted_mean_of_its_levels() -> None:
    goals = per_level((1, 64))
    mix = Goal(name="mix", weights=((1, 3.0), (64, 1.0)))
    draws = posterior((*goals, mix))
    single = [utility(draws, goal, CHOICES) for goal in goals]
    assert np.allclose(utility(draws, mix, CHOICES), 0.75 * single[0] + 0.25 * single[1])


def test_a_broken_latency_limit_costs_more_than_any_speed_gains() -> None:
    free = Goal(name="fast", weights=((8, 1.0),))
    draws = posterior((free,))
    speeds = np.exp(utility(draws, free, CHOICES)).mean(axis=0) / 8
    limit = float(np.sort(speeds)[1:].mean())  # between the second and the third
    bound = Goal(name="bound", weights=((8, 1.0),), min_request_tps=limit)
    fits = utility(draws, bound, CHOICES).mean(axis=0)
    assert int(fits.argmax()) == int(speeds.argmax())
    assert fits.min() < fits.max() - 1.0


def test_a_capacity_lever_is_a_second_axis() -> None:
    evidence = make_evidence(make_truth(1), make_cells((1, 4), (1, 8, 64)))
    curve = CapacityCurve(
        law="x", weight=1.0, running=(("", 2, 8), ("", 5, 8), ("wide", 2, 64), ("wide", 5, 64))
    )
    evidence = Evidence(speeds=evidence.speeds[:2] + evidence.speeds[3:5], capacity=(curve,))
    choices = tuple(Choice(setting=Setting.chain(1), lever=lever) for lever in ("", "wide"))
    goal = Goal(name="c64", weights=((64, 1.0),))
    draws = sample(evidence, cells_of((goal,), choices), prior=DEFAULT_PRIOR, rng=np.random.default_rng(0))
    narrow, wide = utility(draws, goal, choices).mean(axis=0)
    assert wide > narrow


def test_weights_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="every weight > 0"):
        Goal(name="mix", weights=((1, 0.0),))
