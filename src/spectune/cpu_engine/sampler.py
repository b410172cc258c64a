"""Chooses tokens from logits. Deterministic: the randomness of a position comes from its seed and place.

u = hash(seed, position) is uniform in [0, 1) and independent between positions; the token is the inverse
of the cumulative distribution at u. Every node of a draft tree at one depth uses its position's u, so the
walk through the tree meets, at each position, an exact sample of the target's distribution, and the same
sample plain decoding would have drawn: speculation is lossless at every temperature.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of rows, each [num_rows].

    Attributes:
        temperature: 0 is greedy.
        top_p: share of probability kept, (0, 1].
        top_k: tokens kept; 0 keeps all.
        seed: per request.
        position: of the token to be chosen in its sequence.
    """

    temperature: Floats
    top_p: Floats
    top_k: Ints
    seed: NDArray[np.uint64]
    position: Ints


def choose(logits: Floats, sampling: Sampling) -> Ints:
    """The chosen token of each row of logits [num_rows, vocab]."""
    tokens: Ints = logits.argmax(axis=-1)
    random = np.flatnonzero(sampling.temperature > 0)
    if random.size:
        probabilities = filtered_probabilities(
            logits[random], sampling.temperature[random], sampling.top_p[random], sampling.top_k[random]
        )
        tokens[random] = pick(probabilities, uniform(sampling.seed[random], sampling.position[random]))
    return tokens


def filtered_probabilities(
    logits: Floats, temperature: Floats, top_p: Floats, top_k: Ints
) -> NDArray[np.float64]:
    """Probabilities [num_rows, vocab] after temperature, then top_k, then top_p, summing to 1.

    top_p keeps the smallest set of likeliest tokens whose sum reaches it, at least one.
    """
    scaled = logits.astype(np.float64) / temperature[:, None]
    scaled -= scaled.max(axis=-1, keepdims=True)
    probabilities = np.exp(scaled)
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    cut = np.flatnonzero((top_p < 1) | ((top_k > 0) & (top_k < logits.shape[-1])))
    if cut.size:
        probabilities[cut] = _cut(probabilities[cut], top_p[cut], top_k[cut])
    return probabilities


def pick(probabilities: NDArray[np.float64], u: NDArray[np.float64]) -> Ints:
    """The first token of each row whose cumulative probability exceeds u."""
    cumulative = probabilities.cumsum(axis=-1)
    below = cumulative <= u[:, None] * cumulative[:, -1:]
    tokens: Ints = np.minimum(below.sum(axis=-1), probabilities.shape[-1] - 1)
    return tokens


def uniform(seed: NDArray[np.uint64], position: Ints) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) by (seed, position): SplitMix64's mixing function, twice."""
    with np.errstate(over="ignore"):
        mixed = _mix(_mix(seed + _GOLDEN) ^ (position.astype(np.uint64) * _GOLDEN))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIERS[0]
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIERS[1]
    return x ^ (x >> np.uint64(31))


def _cut(probabilities: NDArray[np.float64], top_p: Floats, top_k: Ints) -> NDArray[np.float64]:
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=-1)
    rank = np.arange(probabilities.shape[-1])
    limit = np.where(top_k > 0, top_k, probabilities.shape[-1])
    ordered[rank[None, :] >= limit[:, None]] = 0
    ordered /= ordered.sum(axis=-1, keepdims=True)
    before = ordered.cumsum(axis=-1) - ordered
    ordered[(before >= top_p[:, None]) & (rank > 0)] = 0
    kept = np.zeros_like(probabilities)
    np.put_along_axis(kept, order, ordered, axis=-1)
    kept /= kept.sum(axis=-1, keepdims=True)
    return kept
