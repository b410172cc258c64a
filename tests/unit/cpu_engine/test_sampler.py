"""Choosing tokens: exact cumulative inversion, filters, reproducible and even random numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.sampler import Sampling, choose, filtered_probabilities, pick, uniform


def one(
    probabilities: list[float], temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0
) -> np.ndarray:
    logits = np.log(np.array([probabilities], np.float32))
    kept = filtered_probabilities(
        logits, np.array([temperature], np.float32), np.array([top_p], np.float32), np.array([top_k])
    )
    return kept.reshape(-1)


def test_probabilities_are_those_of_the_logits_at_temperature_1() -> None:
    np.testing.assert_allclose(one([0.5, 0.3, 0.2]), [0.5, 0.3, 0.2], atol=1e-6)


def test_temperature_sharpens_and_flattens() -> None:
    assert one([0.6, 0.4], temperature=0.5)[0] > 0.6
    assert one([0.6, 0.4], temperature=2.0)[0] < 0.6


def test_top_k_keeps_the_likeliest_and_renormalizes() -> None:
    np.testing.assert_allclose(one([0.2, 0.5, 0.3], top_k=2), [0, 0.625, 0.375], atol=1e-6)


def test_top_p_keeps_the_smallest_set_that_reaches_it_and_at_least_one() -> None:
    np.testing.assert_allclose(one([0.2, 0.5, 0.3], top_p=0.6), [0, 0.625, 0.375], atol=1e-6)
    np.testing.assert_allclose(one([0.2, 0.5, 0.3], top_p=0.01), [0, 1, 0], atol=1e-6)


@given(st.lists(st.integers(1, 100), min_size=2, max_size=6), st.integers(0, 999))
def test_pick_inverts_the_cumulative_distribution(weights: list[int], thousandths: int) -> None:
    p, u = np.array([weights]) / sum(weights), thousandths / 1000
    token = int(pick(p, np.array([u]))[0])
    assert p[0, :token].sum() <= u + 1e-9
    assert p[0, : token + 1].sum() >= u - 1e-9


def test_greedy_rows_ignore_the_seed_and_sampled_rows_follow_it() -> None:
    logits = np.log(np.tile([[0.26, 0.25, 0.25, 0.24]], (400, 1))).astype(np.float32)

    def sampled(temperature: float, seed: int) -> list[int]:
        rows = len(logits)
        sampling = Sampling(
            np.full(rows, temperature, np.float32), np.ones(rows, np.float32), np.zeros(rows, np.int64),
            np.full(rows, seed, np.uint64), np.arange(rows),
        )  # fmt: skip
        tokens: list[int] = choose(logits, sampling).tolist()
        return tokens

    assert sampled(0.0, 1) == sampled(0.0, 2) == [0] * 400
    assert sampled(1.0, 1) == sampled(1.0, 1)
    assert sampled(1.0, 1) != sampled(1.0, 2)


def test_random_numbers_are_even_over_positions_and_over_seeds() -> None:
    many = np.arange(200_000)
    for values in (
        uniform(np.full(many.size, 7, np.uint64), many),
        uniform(many.astype(np.uint64), np.full(many.size, 3)),
    ):
        counts, _ = np.histogram(values, bins=20, range=(0, 1))
        chi_squared = ((counts - 10_000) ** 2 / 10_000).sum()
        assert chi_squared < 43.8  # 99.9 % point for 19 degrees of freedom
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01
