"""Tokens per verify step as a function of the draft length. Feeds step_cost × acceptance → speed.

Symbols
    K       num_steps of a chain                                             1
    a       probability that the first draft token is accepted               1, (0, 1)
    r       factor by which it falls from one position to the next           1, (0, 1)
    P_i     share of verify steps whose first i draft tokens were accepted   1, [positions]
    AL      acceptance length: tokens per verify step with the bonus         tokens, [1, K + 1]

Sources: AL = 1 + Σ P_i is the definition of the counters; constant a (r = 1) is Leviathan et al.,
arXiv 2211.17192; a·r^i is the form with the smallest error on 19 public curves (mean 2.2 % from K = 1 and 4,
against 5.0 % for constant a).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectune.errors import NotEnoughData
from spectune.perfmodel.arrays import Floats, Ints
from spectune.perfmodel.evidence import AcceptanceRow, Setting

EXTRAPOLATION_LOG_SD = 0.02  # per step beyond the longest measured draft; from the 19 public curves
NEGLIGIBLE = 1e-14  # a position this unlikely to be reached ends the sum: later ones are less likely still
_MAX_RUN = 4096  # longest joined run that the chain estimate sums over


def curve(log_odds: Floats, log_decay: Floats, num_steps: Ints) -> Floats:
    """Acceptance length AL = 1 + Σ_{j=1..K} Π_{i<j} a·r^i = 1 + Σ_j a^j·r^{j(j−1)/2}.

    Args:
        log_odds: logit of a, any shape that broadcasts.
        log_decay: log(−log r).
        num_steps: K, same shape.
    """
    log_a = -np.logaddexp(0.0, -log_odds)
    log_r = -np.exp(log_decay)
    total = np.ones(np.broadcast_shapes(log_a.shape, log_r.shape, num_steps.shape))
    for j in range(1, int(num_steps.max(initial=0)) + 1):
        term = np.exp(j * log_a + 0.5 * j * (j - 1) * log_r)
        total = total + np.where(num_steps >= j, term, 0.0)
        if float(term.max(initial=0.0)) < NEGLIGIBLE:
            break
    return total


def curve_gradient(log_odds: Floats, log_decay: Floats, num_steps: Ints) -> tuple[Floats, Floats, Floats]:
    """The curve and its derivatives by log-odds and log-decay, all of the same shape."""
    log_a = -np.logaddexp(0.0, -log_odds)
    log_r = -np.exp(log_decay)
    by_odds_of_log_a = 1.0 - np.exp(log_a)
    shape = np.broadcast_shapes(log_a.shape, log_r.shape, num_steps.shape)
    total, by_odds, by_decay = np.ones(shape), np.zeros(shape), np.zeros(shape)
    for j in range(1, int(num_steps.max(initial=0)) + 1):
        term = np.where(num_steps >= j, np.exp(j * log_a + 0.5 * j * (j - 1) * log_r), 0.0)
        total += term
        by_odds += j * by_odds_of_log_a * term
        by_decay += 0.5 * j * (j - 1) * log_r * term
        if float(term.max(initial=0.0)) * j * j < NEGLIGIBLE:
            break
    return total, by_odds, by_decay


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionCounts:
    """Counters of one run with a long draft.

    Attributes:
        verify_steps: verify steps that had a draft.
        accepted: verify steps whose first i draft tokens were all accepted, i = 1, 2, …; never grows.
    """

    verify_steps: int
    accepted: tuple[int, ...]

    def __post_init__(self) -> None:
        """Checks the counts; raises NotEnoughData when there is nothing to estimate from."""
        if self.verify_steps < 1 or not self.accepted:
            raise NotEnoughData(
                "acceptance counters: `verify_steps >= 1` must hold; run some requests first."
            )
        ladder = [self.verify_steps, *self.accepted]
        if ladder != sorted(ladder, reverse=True) or ladder[-1] < 0:
            raise NotEnoughData(
                f"acceptance counters: `accepted per position never grows` must hold, got {ladder}."
            )


def counter_sum(counts: PositionCounts, num_steps: int) -> float:
    """AL(K) = 1 + Σ_{i<=K} P_i as read off a longer run. Biased low: long drafts start after rejections."""
    return 1.0 + sum(counts.accepted[:num_steps]) / counts.verify_steps


def chain_estimate(counts: PositionCounts, num_steps: int) -> float:
    """AL(K) with rounds cut by the draft's end joined to their successors (MODEL study, section 5).

    A full round ends by truncation, not by rejection, so the text goes on as it was.
    With Kmax + 1 = B tokens per full round, a run of g full rounds (geometric in q = P(full)) and a last
    round of e tokens has R = g·B + e tokens; a draft of K would have taken ceil(R ÷ (K + 1)) rounds:
    AL(K) = E[R] ÷ E[ceil(R ÷ (K + 1))].
    """
    block = len(counts.accepted) + 1
    ladder = np.array([counts.verify_steps, *counts.accepted, 0], dtype=float)
    ended = (ladder[:-1] - ladder[1:])[: block - 1]  # rounds that accepted 0 … Kmax − 1 tokens
    full = counts.accepted[-1] / counts.verify_steps
    if ended.sum() == 0:
        return float(num_steps + 1)
    share = ended / ended.sum()
    num_full = min(_MAX_RUN, 1 + math.ceil(math.log(1e-9) / math.log(full))) if full > 0 else 1
    weights = (1.0 - full) * full ** np.arange(num_full)
    weights /= weights.sum()
    lengths = np.arange(num_full)[:, None] * block + np.arange(1, block)[None, :]  # [num_full, block - 1]
    rounds = np.ceil(lengths / (num_steps + 1))
    mean = weights[:, None] * share[None, :]
    return float((mean * lengths).sum() / (mean * rounds).sum())


def shorter_drafts(
    counts: PositionCounts, *, workload: str, num_steps: Sequence[int]
) -> tuple[AcceptanceRow, ...]:
    """Acceptance of shorter chains from one run with a long one; its own length is exact.

    The counter sum errs low and the chain estimate high, so their mean is taken and half their gap is
    added to the sampling error as its uncertainty.
    """
    longest = len(counts.accepted)
    sampling = 0.5 / math.sqrt(counts.verify_steps)
    rows = []
    for steps in sorted(set(num_steps)):
        if not 1 <= steps <= longest:
            continue
        low, high = counter_sum(counts, steps), chain_estimate(counts, steps)
        value = low if steps == longest else 0.5 * (low + high)
        gap = 0.0 if steps == longest else abs(math.log(high / low))
        rows.append(
            AcceptanceRow(
                setting=Setting.chain(steps),
                workload=workload,
                acceptance_length=value,
                log_sd=math.hypot(math.hypot(sampling, 0.005), 0.5 * gap),
            )
        )
    return tuple(rows)
