"""The prefix cache returns what was saved, within its budget, oldest out first."""

import numpy as np
import pytest

from spectune.cpu_engine.kv_cache import CacheShape, SlotCache
from spectune.cpu_engine.prefix_cache import MIN_TOKENS, PrefixCache

TOKENS = np.arange(40)


@pytest.fixture
def caches() -> list[SlotCache]:
    rng = np.random.default_rng(0)
    made = [SlotCache(CacheShape(num_slots=3, num_layers=n, num_heads=1, head_dim=2)) for n in (2, 1)]
    for cache in made:
        for layer in cache.layers:
            for part in layer:
                part[:] = rng.normal(size=part.shape)
    return made


def test_the_longest_common_beginning_is_restored_but_its_last_token(caches: list[SlotCache]) -> None:
    prefixes = PrefixCache(10**6)
    prefixes.save(TOKENS[:20], 0, caches)
    prefixes.save(TOKENS, 1, caches)
    prompt = np.concatenate([TOKENS[:30], [99, 98]])
    assert prefixes.restore(prompt, 2, caches) == 29
    for cache in caches:
        for keys, values in cache.layers:
            np.testing.assert_array_equal(keys[2, :, :29], keys[1, :, :29])
            np.testing.assert_array_equal(values[2, :, :29], values[1, :, :29])


def test_short_beginnings_are_not_worth_it(caches: list[SlotCache]) -> None:
    prefixes = PrefixCache(10**6)
    prefixes.save(TOKENS, 0, caches)
    assert prefixes.restore(np.concatenate([TOKENS[:MIN_TOKENS], [99]]), 2, caches) == 0
    prefixes.save(TOKENS[: MIN_TOKENS - 1], 0, caches)
    assert len(prefixes) == 1


def test_the_least_recently_used_goes_when_the_budget_is_spent(caches: list[SlotCache]) -> None:
    one = 40 * 3 * 2 * 2 * 4  # tokens, layers, keys and values, width, float32
    prefixes = PrefixCache(2 * one)
    first, second, third = TOKENS, TOKENS + 100, TOKENS + 200
    prefixes.save(first, 0, caches)
    prefixes.save(second, 0, caches)
    assert prefixes.restore(first, 2, caches) == 39
    prefixes.save(third, 0, caches)
    assert len(prefixes) == 2
    assert prefixes.restore(second, 2, caches) == 0
    assert prefixes.restore(first, 2, caches) == 39
    prefixes.clear()
    assert prefixes.restore(first, 2, caches) == 0
