"""The parts of a Llama decoder layer, written into a graph.

Shapes: B sequences, S tokens each, H hidden, N query heads, G query heads per key/value head,
V key/value heads, D head width, T cache length. Rotary embedding in Hugging Face's half-rotation form.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectune.cpu_engine.graph_builder import GraphBuilder
from spectune.cpu_engine.model_config import ModelConfig

Weights = dict[str, NDArray[np.float32]]
MASKED = np.array(-1e9, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Names of one layer's cache values and of where to write: keys, values [B, V, T, D], start [B]."""

    keys: str
    values: str
    start: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlaces:
    """Names of the two orders of a tree's cache entries, each int64 [B, V, G, S, T].

    A softmax sums in an order of its own, so that its last bits depend on where the terms stand. A node's
    scores are put where those of the same tokens in a chain would stand, and its shares back.

    Attributes:
        order: of scores, cache entry of each place.
        back: of shares, place of each cache entry.
    """

    order: str
    back: str


def causal_bias(g: GraphBuilder, positions: str, cache: str) -> str:
    """Additive mask [B, 1, 1, S, T]: token at position p sees cache entries 0 … p."""
    length = g.op("Squeeze", [g.op("Shape", [cache], start=2, end=3), g.ints(0)])
    scalar = [g.constant("zero", np.array(0, np.int64)), length, g.constant("one", np.array(1, np.int64))]
    entries = g.op("Range", scalar)  # [T]
    places = g.op("Unsqueeze", [positions, g.ints(1, 2, 4)])  # [B, 1, 1, S, 1]
    visible = g.op("LessOrEqual", [entries, places])
    return g.op("Where", [visible, g.constant("seen", np.array(0, np.float32)), g.constant("masked", MASKED)])


def rms_norm(g: GraphBuilder, x: str, name: str, weights: Weights, config: ModelConfig) -> str:
    """RMSNorm of `x` over its last axis."""
    scale = g.constant(name, weights[name])
    return g.op("RMSNormalization", [x, scale], axis=-1, epsilon=config.rms_eps)


def linear(g: GraphBuilder, x: str, names: tuple[str, ...], weights: Weights) -> str:
    """`x` times the transposes of the named weights, joined into one matmul."""
    joined = np.concatenate([weights[name] for name in names], axis=0).T
    return g.op("MatMul", [x, g.constant("+".join(names), joined)])


def swiglu(g: GraphBuilder, x: str, prefix: str, weights: Weights, config: ModelConfig) -> str:
    """The gated MLP of `x`."""
    both = linear(g, x, (f"{prefix}.gate_proj.weight", f"{prefix}.up_proj.weight"), weights)
    width = config.intermediate_size
    gate, up = g.ops("Split", [both, g.ints(width, width)], 2, axis=-1)
    gated = g.op("Mul", [g.op("QuickGelu", [gate], fused=True, alpha=1.0), up])
    return linear(g, gated, (f"{prefix}.down_proj.weight",), weights)


def rotary(g: GraphBuilder, x: str, positions: str, heads: int, config: ModelConfig) -> str:
    """Rotary embedding of x [B, S, heads·D] at positions [B, S]."""
    frequencies = config.rope_theta ** (-np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim)
    angles = np.outer(np.arange(config.max_positions), frequencies)  # [positions, D / 2]
    cos = g.constant("rope_cos", np.cos(angles).astype(np.float32))
    sin = g.constant("rope_sin", np.sin(angles).astype(np.float32))
    return g.op("RotaryEmbedding", [x, cos, sin, positions], num_heads=heads, interleaved=0)


def attention(  # noqa: PLR0913  (a graph fragment's wires)
    g: GraphBuilder,
    x: str,
    prefix: str,
    weights: Weights,
    config: ModelConfig,
    *,
    positions: str,
    bias: str,
    cache: Cache,
    outputs: tuple[str, str],
    tree: TreePlaces | None = None,
) -> str:
    """Grouped-query attention of x [B, S, *] over the cache, after writing its own keys and values.

    Args:
        g: the graph.
        x: normed input.
        prefix: name of the layer's attention weights.
        weights: all weights.
        config: shapes.
        positions: rotary positions [B, S].
        bias: additive mask [B, 1, 1, S, T].
        cache: the layer's cache.
        outputs: names for the written keys and values, to be bound to the cache's own memory.
        tree: where a tree's entries stand; None for a chain.
    """
    dim, kv, group = config.head_dim, config.num_kv_heads, config.group
    names = tuple(f"{prefix}.{part}_proj.weight" for part in "qkv")
    joined = linear(g, x, names, weights)
    sizes = g.ints(config.num_heads * dim, kv * dim, kv * dim)
    query, key, value = g.ops("Split", [joined, sizes], 3, axis=-1)
    query = rotary(g, query, positions, config.num_heads, config)
    key = rotary(g, key, positions, kv, config)
    keys = _scatter(g, key, cache.keys, cache.start, outputs[0], config)
    values = _scatter(g, value, cache.values, cache.start, outputs[1], config)
    query = g.op("Reshape", [query, g.ints(0, 0, kv, group, dim)])
    query = g.op("Transpose", [query], perm=[0, 2, 3, 1, 4])  # [B, V, G, S, D]
    query = g.op("Reshape", [query, g.ints(0, 0, -1, dim)])  # [B, V, G·S, D]
    scores = g.op("FusedMatMul", [query, keys], fused=True, transB=1, alpha=dim**-0.5)
    scores = g.op("Reshape", [scores, _with_length(g, bias, 0, kv, group, -1)])
    shares = _shares(g, scores, bias, tree)
    return _weighted_values(g, shares, bias, values, config, linear_name=f"{prefix}.o_proj.weight", w=weights)


def _shares(g: GraphBuilder, scores: str, bias: str, tree: TreePlaces | None) -> str:
    """Softmax of scores [B, V, G, S, T] over what `bias` leaves visible."""
    if tree is None:
        return g.op("Softmax", [g.op("Add", [scores, bias])], axis=-1)
    scores = g.op("GatherElements", [scores, tree.order], axis=-1)
    shares = g.op("Softmax", [g.op("Add", [scores, bias])], axis=-1)
    return g.op("GatherElements", [shares, tree.back], axis=-1)


def _weighted_values(
    g: GraphBuilder,
    shares: str,
    bias: str,
    values: str,
    config: ModelConfig,
    *,
    linear_name: str,
    w: Weights,
) -> str:
    dim, kv = config.head_dim, config.num_kv_heads
    shares = g.op("Reshape", [shares, _with_length(g, bias, 0, kv, -1)])
    mixed = g.op("MatMul", [shares, values])  # [B, V, G·S, D]
    mixed = g.op("Reshape", [mixed, g.ints(0, kv, config.group, -1, dim)])
    mixed = g.op("Transpose", [mixed], perm=[0, 3, 1, 2, 4])  # [B, S, V, G, D]
    mixed = g.op("Reshape", [mixed, g.ints(0, 0, config.num_heads * dim)])
    return linear(g, mixed, (linear_name,), w)


def _scatter(g: GraphBuilder, rows: str, cache: str, start: str, output: str, config: ModelConfig) -> str:
    """Writes rows [B, S, V·D] into the cache at start [B]; returns the written cache."""
    split = g.op("Reshape", [rows, g.ints(0, 0, config.num_kv_heads, config.head_dim)])
    by_head = g.op("Transpose", [split], perm=[0, 2, 1, 3])  # [B, V, S, D]
    return g.named_op("TensorScatter", [cache, by_head, start], output, axis=2, mode="linear")


def _with_length(g: GraphBuilder, bias: str, *leading: int) -> str:
    """The shape vector (*leading, T), T being the last axis of `bias`."""
    length = g.op("Shape", [bias], start=-1)
    return g.op("Concat", [g.ints(*leading), length], axis=0)
