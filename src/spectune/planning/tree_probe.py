"""One launch of a tree after the chains: with what, and whether it may win.

On published tables a tree beat the best chain in 9 of 87 cells, so trees are not searched, only probed: at
the best chain's num_steps, with room for the chain and a side branch at every step.

Symbols
    p_i   probability that step i of the chain is accepted, given the steps before it      1
    s     share of a chain's rejections that the side branches catch                       1
    q_i   probability that some branch of step i is accepted: 1 − (1 − p_i)·(1 − s)        1
    AL    acceptance length of the tree: 1 + Σ_i Π_{j<=i} q_j                              tokens

s is unknown before the probe. Published trees that verify no more tokens than the chain (SpecBundle, topk 3
with 6 tokens at 5 steps, 65 cells) accept 12 % less than it, 8 % more at best; with tokens enough to hold
the chain too a tree cannot accept less. Taken: s = 0.2, with one standard deviation up to 0.4.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spectune.perfmodel.acceptance_model import curve
from spectune.perfmodel.arrays import Floats
from spectune.perfmodel.evidence import AcceptanceRow, Evidence, Setting
from spectune.perfmodel.fitting import best, layout_of, problem_of
from spectune.perfmodel.priors import Prior
from spectune.perfmodel.step_cost import NUM_PARAMETERS
from spectune.planning.goals import Choice
from spectune.planning.stopping import OpenGoal

CAUGHT, CAUGHT_HIGH = 0.2, 0.4


def tree_acceptance(steps: Floats, caught: float) -> float:
    """AL of a tree whose chain accepts step i with probability `steps[i]`, given those before.

    >>> round(tree_acceptance(np.array([0.8, 0.5]), 0.0), 6)
    2.2
    """
    either = 1.0 - (1.0 - steps) * (1.0 - caught)
    return float(1.0 + np.cumprod(either).sum())


def chain_steps(log_odds: float, log_decay: float, num_steps: int) -> Floats:
    """p_i of the fitted form: AL(i) − AL(i − 1) is the probability that the first i steps are accepted."""
    depth = np.arange(num_steps + 1)
    lengths = curve(np.array([log_odds]), np.array([log_decay]), depth)
    reached = np.diff(lengths)  # [num_steps]
    return np.asarray(reached / np.concatenate(([1.0], reached[:-1])))


def with_tree(evidence: Evidence, tree: Setting, prior: Prior) -> Evidence:
    """The evidence with what its chains say of the tree's acceptance."""
    layout = layout_of(evidence)
    capacity = evidence.capacity[0] if evidence.capacity else None
    theta = best(problem_of(evidence, layout, prior, (capacity,)))[0]
    steps = chain_steps(float(theta[NUM_PARAMETERS]), float(theta[NUM_PARAMETERS + 1]), tree.num_steps)
    middle, high = tree_acceptance(steps, CAUGHT), tree_acceptance(steps, CAUGHT_HIGH)
    row = AcceptanceRow(
        setting=tree, workload="", acceptance_length=middle, log_sd=max(0.02, math.log(high / middle))
    )
    return replace(evidence, acceptance=(*evidence.acceptance, row))


def best_chain(stands: Sequence[OpenGoal]) -> Choice | None:
    """The measured chain that is best for most goals, more steps on a tie; None where off always is."""
    chains = [s.best_measured for s in stands if not s.best_measured.setting.is_off]
    if not chains:
        return None
    return max(sorted(set(chains), key=lambda c: -c.setting.num_steps), key=chains.count)
