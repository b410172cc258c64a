"""A small version of benchmarks/statistics: fixed seeds, so it says the same every time."""

from functools import cache

import pytest

from benchmarks.statistics.simulate import DEFAULT, NAIVE, THOROUGH, Score, judge_study, score
from benchmarks.statistics.studies import Noises

STUDIES = 50


@cache
def scores(launch_sd: float) -> dict[str, Score]:
    noises = Noises(launch=launch_sd, num_requests=48)
    judged = [judge_study(seed, noises=noises, levels=(1, 4)) for seed in range(STUDIES)]
    return {name: score(study[name] for study in judged) for name in (NAIVE, DEFAULT, THOROUGH)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", [DEFAULT, THOROUGH])
@pytest.mark.parametrize("launch_sd", [0.015, 0.03])
def test_a_decided_winner_is_seldom_wrong(launch_sd: float, row: str) -> None:
    assert scores(launch_sd)[row].wrong_studies <= 0.06


@pytest.mark.timeout(300)
def test_wide_gaps_are_mostly_decided() -> None:
    assert scores(0.015)[THOROUGH].decided_wide >= 0.6


@pytest.mark.timeout(300)
def test_the_noise_of_prompts_alone_is_often_wrong() -> None:
    assert scores(0.03)[NAIVE].wrong_studies >= 0.08
