"""Acceptance: against a slow walk, and the sampled distribution by enumeration on a tiny vocabulary."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.cpu_engine.sampler import pick
from spectune.cpu_engine.verifier import Tree, accept_chain, accept_tree


def slow_walk(tokens: list[int], parents: list[int], choices: list[int]) -> list[int]:
    path = [0]
    while True:
        children = [
            n for n in range(len(tokens)) if parents[n] == path[-1] and tokens[n] == choices[path[-1]]
        ]
        if not children:
            return path
        path.append(children[0])


@given(st.data())
def test_the_tree_walk_equals_a_slow_one(data: st.DataObject) -> None:
    batch, nodes = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    parents = [[-1] + [data.draw(st.integers(0, n - 1)) for n in range(1, nodes)] for _ in range(batch)]
    small = st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes)
    tokens = [data.draw(small) for _ in range(batch)]
    choices = [data.draw(small) for _ in range(batch)]
    depths = np.zeros((batch, nodes), np.int64)
    for row, line in enumerate(parents):
        for node in range(1, nodes):
            depths[row, node] = depths[row, line[node]] + 1
    tree = Tree(tokens=np.array(tokens), parents=np.array(parents), depths=depths)
    path = accept_tree(tree, np.array(choices))
    for row in range(batch):
        expected = slow_walk(tokens[row], parents[row], choices[row])
        assert [n for n in path[row].tolist() if n >= 0] == expected


@given(st.data())
def test_a_chain_is_accepted_up_to_its_first_difference(data: st.DataObject) -> None:
    steps = data.draw(st.integers(0, 5))
    drafts = data.draw(st.lists(st.integers(0, 1), min_size=steps, max_size=steps))
    choices = data.draw(st.lists(st.integers(0, 1), min_size=steps + 1, max_size=steps + 1))
    drafted = data.draw(st.integers(0, steps))
    expected = 0
    while expected < drafted and drafts[expected] == choices[expected]:
        expected += 1
    got = accept_chain(np.array([drafts], np.int64), np.array([drafted]), np.array([choices]))
    assert got.tolist() == [expected]


# Trees of depth 2 over the tokens 0, 1, 2: (tokens, parents, depths), root first.
TREES = {
    "chain": ([2, 0, 1], [-1, 0, 1], [0, 1, 2]),
    "fork": ([2, 0, 1, 2, 0, 1], [-1, 0, 0, 1, 1, 2], [0, 1, 1, 2, 2, 2]),
    "root only": ([2], [-1], [0]),
}


@pytest.mark.parametrize("shape", TREES)
def test_sampled_text_has_the_targets_distribution_by_enumeration(shape: str) -> None:
    """All values of u that matter are enumerated: cells between the breakpoints of every node's distribution.

    The target is a random conditional distribution p(next | previous two). Speculation emits a path's
    tokens and then goes on plainly; two tokens are compared with p(a) p(b | a).
    """
    rng = np.random.default_rng(11)
    table = rng.dirichlet(np.ones(3), size=(3, 3))  # [previous, last, next]
    tokens, parents, depths = TREES[shape]
    node_rows = np.array(
        [table[0, 2] if n == 0 else _after(table, tokens, parents, n) for n in range(len(tokens))]
    )
    tree = Tree(tokens=np.array([tokens]), parents=np.array([parents]), depths=np.array([depths]))
    mass = np.zeros((3, 3))
    for (low0, high0), (low1, high1) in itertools.product(_cells(table), repeat=2):
        u = np.array([(low0 + high0) / 2, (low1 + high1) / 2, 0.5])
        choices = pick(node_rows, u[np.array(depths)])
        path = [n for n in accept_tree(tree, choices[None])[0].tolist() if n >= 0]
        emitted = [int(choices[n]) for n in path]
        if len(emitted) == 1:  # plain decoding draws the second token
            emitted.append(int(pick(table[2, emitted[0]][None], u[1:2])[0]))
        mass[emitted[0], emitted[1]] += (high0 - low0) * (high1 - low1)
    expected = table[0, 2][:, None] * table[2]
    np.testing.assert_allclose(mass, expected, atol=1e-12)


def _after(table: np.ndarray, tokens: list[int], parents: list[int], node: int) -> np.ndarray:
    previous = tokens[parents[node]]
    row: np.ndarray = table[previous, tokens[node]]
    return row


def _cells(table: np.ndarray) -> list[tuple[float, float]]:
    """Intervals of u within which no distribution's choice changes."""
    points = np.unique(np.concatenate([[0.0, 1.0], table.cumsum(axis=-1)[..., :-1].ravel()]))
    return list(itertools.pairwise(points.tolist()))
