"""Which drafted tokens are accepted: follow, from the root, the child that carries the chosen token.

Nothing here knows probabilities: `choices` are the target's own tokens at every node, greedy or sampled.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Draft trees of a batch; node 0 is the root, parents come before children.

    Attributes:
        tokens: token of each node [batch, num_nodes].
        parents: index of each node's parent [batch, num_nodes]; −1 for the root.
        depths: distance from the root [batch, num_nodes].
    """

    tokens: Ints
    parents: Ints
    depths: Ints


def accept_chain(drafts: Ints, drafted: Ints, choices: Ints) -> Ints:
    """Accepted draft tokens of each sequence [batch].

    Args:
        drafts: drafted tokens [batch, num_steps].
        drafted: how many of them count [batch].
        choices: the target's token after root and each draft [batch, num_steps + 1].
    """
    if drafts.shape[1] == 0:
        return np.zeros(len(drafts), np.int64)
    counts = np.arange(drafts.shape[1])[None, :] < drafted[:, None]
    same = (drafts == choices[:, :-1]) & counts
    accepted: Ints = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    return accepted


def accept_tree(tree: Tree, choices: Ints) -> Ints:
    """The accepted path of each sequence: node indexes [batch, max depth + 1], −1 after its end.

    Args:
        tree: the drafts.
        choices: the target's token after each node [batch, num_nodes].
    """
    batch, num_nodes = tree.tokens.shape
    rows = np.arange(batch)
    path = np.full((batch, int(tree.depths.max(initial=0)) + 1), -1, np.int64)
    path[:, 0] = 0
    here = np.zeros(batch, np.int64)
    alive = np.ones(batch, bool)
    for depth in range(1, path.shape[1]):
        wanted = choices[rows, here]
        fits = (tree.parents == here[:, None]) & (tree.tokens == wanted[:, None]) & alive[:, None]
        child = np.where(fits.any(axis=1), fits.argmax(axis=1), -1)
        alive = child >= 0
        here = np.where(alive, child, here)
        path[alive, depth] = child[alive]
        if not alive.any() or num_nodes == 1:
            break
    return path
