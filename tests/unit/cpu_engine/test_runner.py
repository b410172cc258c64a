"""Bound graphs: what was filled is what is run, however many shapes have been seen."""

from collections.abc import Callable

import numpy as np
import pytest

from spectune.cpu_engine.graph_builder import GraphBuilder
from spectune.cpu_engine.kv_cache import CacheShape, SlotCache
from spectune.cpu_engine.runner import MAX_BOUND, GraphRunner
from spectune.cpu_engine.target import Target


@pytest.fixture
def cache() -> SlotCache:
    return SlotCache(CacheShape(num_slots=3, num_layers=1, num_heads=1, head_dim=2))


@pytest.fixture
def runner(cache: SlotCache) -> GraphRunner:
    """A graph that adds each sequence's `start` to its `ids` and reads the first entry's key."""
    g = GraphBuilder()
    ids = g.input("ids", np.int64, ("B", "S"))
    start = g.input("start", np.int64, ("B",))
    keys = g.input("key0", np.float32, ("B", 1, "T", 2))
    g.output(g.named_op("Add", [ids, g.op("Unsqueeze", [start, g.ints(1)])], "sum"), np.int64, ("B", "S"))
    g.output(g.named_op("ReduceMax", [keys], "most", keepdims=0), np.float32, ())
    return GraphRunner(g.session(1), cache)


def add(runner: GraphRunner, num_tokens: int) -> list[int]:
    graph = runner.for_shape(num_sequences=1, num_tokens=num_tokens)
    graph.arrays["ids"][:] = np.arange(num_tokens)
    graph.arrays["start"][:] = num_tokens
    sums: list[int] = graph.run()["sum"][0].tolist()
    return sums


def test_every_one_of_many_shapes_runs_what_was_filled(runner: GraphRunner) -> None:
    sizes = [*range(1, 2 * MAX_BOUND + 3), 1, MAX_BOUND]
    assert [add(runner, size) for size in sizes] == [list(range(size, 2 * size)) for size in sizes]


def test_a_bound_graph_outlives_its_being_forgotten(runner: GraphRunner) -> None:
    first = runner.for_shape(num_sequences=1, num_tokens=1)
    first.arrays["ids"][:] = 41
    for size in range(2, MAX_BOUND + 3):
        add(runner, size)
    assert runner.for_shape(num_sequences=1, num_tokens=1) is not first
    assert first.run()["sum"].tolist() == [[41]]


def test_a_shape_in_use_is_kept_and_the_least_recently_used_goes(runner: GraphRunner) -> None:
    often = runner.for_shape(num_sequences=2, num_tokens=1)
    for size in range(2, 3 * MAX_BOUND):
        add(runner, size)
        assert runner.for_shape(num_sequences=2, num_tokens=1) is often


def test_memory_that_moved_is_bound_again(runner: GraphRunner, cache: SlotCache) -> None:
    runner.for_shape(num_sequences=1, num_tokens=1).run()
    cache.reserve(cache.length + 1, 0, np.zeros(3, np.int64))
    cache.layers[0][0][0, 0, 0, 0] = 7
    assert runner.for_shape(num_sequences=1, num_tokens=1).run()["most"] == 7


def test_the_target_scores_a_prompt_alike_after_any_number_of_shapes(
    make_target: Callable[..., Target],
) -> None:
    """The 256th shape once ran on zeros: a wrong first token, one request in some hundreds."""
    tokens = np.random.default_rng(4).integers(0, 24, 60)
    expected, _ = make_target().prefill(0, 0, tokens)
    target = make_target()
    for slot in (0, 1, 2):
        for cut in range(1, 60):
            target.prefill(slot, 0, tokens[:cut])
            logits, _ = target.prefill(slot, cut, tokens[cut:])
            np.testing.assert_allclose(logits, expected, atol=1e-4, err_msg=f"{slot=} {cut=}")
    for batch in (1, 2, 3):
        for cut in range(1, 60):
            logits, _ = target.decode(np.tile(tokens[cut:], (batch, 1)), np.full(batch, cut))
            last = logits[:: -(60 - cut)]
            np.testing.assert_allclose(
                last, np.tile(expected, (batch, 1)), atol=1e-4, err_msg=f"{batch=} {cut=}"
            )
