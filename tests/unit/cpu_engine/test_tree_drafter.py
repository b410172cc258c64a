"""Drafted trees: well-formed, and the likeliest nodes of a full expansion."""

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spectune.cpu_engine.slots import SlotTable, new_slot_table
from spectune.cpu_engine.tree_drafter import Level, TreeDrafter, _best, _select

if TYPE_CHECKING:
    from tests.unit.cpu_engine.conftest import TinyModels


def table_with_prompt(drafter: TreeDrafter, prompt: np.ndarray) -> SlotTable:
    drafter.prefill(0, 0, prompt[:-1], None)
    table = new_slot_table(1, 128, 4, 0)
    table.pending_ids[0, 0] = table.root[0] = prompt[-1]
    table.pending_valid[0] = 1
    table.pending_start[0] = len(prompt) - 1
    return table


@pytest.mark.parametrize(("num_steps", "topk", "tokens"), [(2, 2, 5), (3, 3, 9), (4, 2, 12)])
def test_a_tree_holds_the_likeliest_paths_of_a_brute_force_beam(
    tiny: "TinyModels", num_steps: int, topk: int, tokens: int
) -> None:
    drafter = TreeDrafter(
        tiny.draft, num_steps=num_steps, topk=topk, num_draft_tokens=tokens, num_slots=2, num_threads=1
    )
    prompt = np.array([3, 9, 4, 17, 2])
    tree = drafter.draft(table_with_prompt(drafter, prompt), 1)
    got = {_path(tree.tokens[0], tree.parents[0], node) for node in range(1, tokens)}
    expected = _beam(tiny, prompt.tolist(), num_steps, topk)[: tokens - 1]
    assert got == {path for path, _ in expected}
    assert all(tree.parents[0, 1:] < np.arange(1, tokens))
    assert tree.depths[0].tolist() == [len(_path(tree.tokens[0], tree.parents[0], n)) for n in range(tokens)]


def _path(tokens: np.ndarray, parents: np.ndarray, node: int) -> tuple[int, ...]:
    path: list[int] = []
    while node > 0:
        path.insert(0, int(tokens[node]))
        node = int(parents[node])
    return tuple(path)


def _beam(
    tiny: "TinyModels", prompt: list[int], num_steps: int, topk: int
) -> list[tuple[tuple[int, ...], float]]:
    """EAGLE-2's pool by the slow reference model: (path, log probability), likeliest first."""
    pool: list[tuple[tuple[int, ...], float]] = []
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(num_steps):
        grown = []
        for path, score in beam:
            logits = tiny.draft_logits([*prompt, *path])
            chances = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            best = np.argsort(-chances, kind="stable")[:topk]
            grown += [((*path, int(token)), score + float(chances[token])) for token in best]
        pool += grown
        beam = sorted(grown, key=lambda item: -item[1])[:topk]
    return sorted(pool, key=lambda item: -item[1])


def test_equal_scores_keep_parents_before_children() -> None:
    pool = [
        Level(np.array([[1, 2]]), np.array([[0.0, -1.0]]), np.array([[-1, -1]])),
        Level(np.array([[3, 4, 5, 6]]), np.array([[0.0, 0.0, -1.0, -1.0]]), np.array([[0, 0, 1, 1]])),
    ]
    tree = _select(pool, 4, np.array([9]))
    assert tree.tokens.tolist() == [[9, 1, 2, 3, 4]]
    assert tree.parents.tolist() == [[-1, 0, 0, 1, 1]]
    assert tree.depths.tolist() == [[0, 1, 1, 2, 2]]


def test_best_is_a_stable_sort_cut_short() -> None:
    rng = np.random.default_rng(1)
    for count, width in itertools.product((1, 3, 7), (7, 20)):
        scores = rng.integers(0, 5, (6, width)).astype(float)
        distinct = scores + np.arange(width) * -1e-3
        np.testing.assert_array_equal(
            _best(distinct, count), np.argsort(-distinct, axis=1, kind="stable")[:, :count]
        )
