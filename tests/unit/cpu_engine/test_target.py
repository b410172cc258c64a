"""The target's graph: against a slow reference in float64, and trees against the chains they contain."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spectune.cpu_engine.target import SUM_BLOCK, Target, is_placed_alike, tree_places
from spectune.cpu_engine.verifier import Tree

if TYPE_CHECKING:
    from tests.unit.cpu_engine.conftest import TinyModels

MakeTarget = Callable[..., Target]
SlowLogits = Callable[[list[int]], np.ndarray]


def test_chunked_prefill_and_decoding_equal_the_slow_reference(
    make_target: MakeTarget, slow_logits: SlowLogits
) -> None:
    target = make_target()
    tokens = np.random.default_rng(3).integers(0, 24, 40)
    target.prefill(0, 0, tokens[:17])
    logits, _ = target.prefill(0, 17, tokens[17:30])
    expected = slow_logits(tokens.tolist())
    np.testing.assert_allclose(logits[0], expected[29], atol=2e-4)
    logits, _ = target.decode(tokens[None, 30:], np.array([30]))
    np.testing.assert_allclose(logits, expected[30:], atol=2e-4)


def test_features_are_the_residual_streams_after_the_asked_layers(
    tiny: "TinyModels", make_target: MakeTarget
) -> None:
    both, first = make_target(aux_layers=(1, 2)), make_target(aux_layers=(1,))
    tokens = np.arange(9)
    wide, narrow = both.prefill(0, 0, tokens)[1], first.prefill(0, 0, tokens)[1]
    assert wide is not None
    assert narrow is not None
    size = tiny.target["model.norm.weight"].size
    assert wide.shape == (9, 2 * size)
    np.testing.assert_array_equal(wide[:, :size], narrow)
    assert np.abs(wide[:, size:] - narrow).max() > 0.1


def test_every_path_of_a_tree_scores_as_the_same_chain_does(make_target: MakeTarget) -> None:
    target = make_target(with_trees=True)
    prompt = np.arange(1, 12)
    tree = Tree(
        tokens=np.array([[5, 6, 7, 8, 9, 10], [5, 7, 7, 8, 9, 1]]),
        parents=np.array([[-1, 0, 0, 1, 2, 4], [-1, 0, 1, 0, 3, 3]]),
        depths=np.array([[0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 2]]),
    )
    for slot in (0, 1):
        target.prefill(slot, 0, prompt)
    logits, _ = target.decode_tree(tree, np.array([11, 11]))
    by_node = logits.copy().reshape(2, 6, -1)
    for slot, node in [(0, 5), (0, 3), (1, 2), (1, 4), (1, 5)]:
        path = [node]
        while path[0] != 0:
            path.insert(0, int(tree.parents[slot, path[0]]))
        alone, _ = target.prefill(0, 0, np.concatenate([prompt, tree.tokens[slot, path]]))
        np.testing.assert_allclose(by_node[slot, node], alone[0], atol=1e-4)


def test_a_nodes_own_line_stands_where_a_chains_would() -> None:
    tree = Tree(
        tokens=np.array([[5, 6, 7, 8]]), parents=np.array([[-1, 0, 0, 2]]), depths=np.array([[0, 1, 1, 2]])
    )
    order, back = (places[0, 0, 0] for places in tree_places(tree, np.array([2]), 8))
    entries = np.arange(8)
    for node, line in enumerate([[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 4, 5]]):
        assert order[node, : len(line)].tolist() == line
        assert (back[node, line] == entries[: len(line)]).all()
        assert set(back[node, np.setdiff1d(entries, line)]) == {7}


def test_nodes_moved_over_the_end_of_a_block_of_sums_are_told() -> None:
    tree = Tree(
        tokens=np.zeros((2, 4), int), parents=np.array([[-1, 0, 0, 2]] * 2),
        depths=np.array([[0, 1, 1, 2]] * 2),
    )  # fmt: skip
    lengths = np.array([SUM_BLOCK - 2, SUM_BLOCK - 20])
    assert is_placed_alike(tree, lengths).tolist() == [[True, True, False, True], [True] * 4]
