"""The target model's graph: tokens in, logits of chosen rows and features for an EAGLE head out."""

import numpy as np
import onnxruntime as ort

from spectune.cpu_engine.graph_builder import GraphBuilder
from spectune.cpu_engine.layers import (
    Cache,
    TreePlaces,
    Weights,
    attention,
    causal_bias,
    rms_norm,
    swiglu,
)
from spectune.cpu_engine.model_config import ModelConfig


def target_session(
    config: ModelConfig,
    weights: Weights,
    aux_layers: tuple[int, ...],
    num_threads: int,
    *,
    tree: bool = False,
) -> ort.InferenceSession:
    """The compiled target.

    Inputs: `ids` [B, S]; `start` [B], the cache entry of each sequence's first token; `rows` [R], indexes
    into the B·S tokens whose logits are wanted; `key0`, `value0`, … [B, V, T, D]. A chain derives positions
    from `start`; with `tree` they are an input [B, S], and so are `order` and `back` [B, 1, 1, S, T], see
    `TreePlaces`. What a token at position p sees are places 0 … p.
    Outputs: `logits` [R, vocab]; `features` [B, S, len(aux_layers)·H] if any layer is asked for;
    `key0_out`, … to be bound to the inputs' own memory.
    """
    g = GraphBuilder()
    ids = g.input("ids", np.int64, ("B", "S"))
    start = g.input("start", np.int64, ("B",))
    rows = g.input("rows", np.int64, ("R",))
    caches = [declare_cache(g, config, layer, start) for layer in range(config.num_layers)]
    if tree:
        positions = g.input("positions", np.int64, ("B", "S"))
        places = tree_places(g, config)
    else:
        positions = chain_positions(g, ids, start)
        places = None
    bias = causal_bias(g, positions, caches[0].keys)
    x = g.op("Gather", [g.constant("embed", weights["model.embed_tokens.weight"]), ids], axis=0)
    features: list[str] = []
    for layer, cache in enumerate(caches):
        x = decoder_layer(
            g, x, layer, weights, config, positions=positions, bias=bias, cache=cache, tree=places
        )
        if layer + 1 in aux_layers:
            features.append(x)
    if features:
        g.named_op("Concat", features, "features", axis=-1)
        g.output("features", np.float32, ("B", "S", len(features) * config.hidden_size))
    flat = g.op("Reshape", [x, g.ints(-1, config.hidden_size)])
    picked = rms_norm(g, g.op("Gather", [flat, rows], axis=0), "model.norm.weight", weights, config)
    head = g.constant("lm_head", weights["model.embed_tokens.weight"].T)
    g.named_op("MatMul", [picked, head], "logits")
    g.output("logits", np.float32, ("R", config.vocab_size))
    return g.session(num_threads)


def tree_places(g: GraphBuilder, config: ModelConfig) -> TreePlaces:
    """Declares both orders and repeats them for every head."""
    heads = g.ints(1, config.num_kv_heads, config.group, 1, 1)
    names = [g.input(name, np.int64, ("B", 1, 1, "S", "T")) for name in ("order", "back")]
    order, back = (g.op("Expand", [name, g.op("Mul", [g.op("Shape", [name]), heads])]) for name in names)
    return TreePlaces(order=order, back=back)


def chain_positions(g: GraphBuilder, ids: str, start: str) -> str:
    """Positions [B, S]: start, start + 1, … of each sequence."""
    width = g.op("Squeeze", [g.op("Shape", [ids], start=1, end=2), g.ints(0)])
    zero, one = (g.constant(name, np.array(n, np.int64)) for n, name in enumerate(("zero", "one")))
    return g.op("Add", [g.op("Unsqueeze", [start, g.ints(1)]), g.op("Range", [zero, width, one])])


def declare_cache(g: GraphBuilder, config: ModelConfig, layer: int, start: str) -> Cache:
    """Declares the inputs of one layer's cache, to be written from entry `start` on."""
    shape = ("B", config.num_kv_heads, "T", config.head_dim)
    keys = g.input(f"key{layer}", np.float32, shape)
    values = g.input(f"value{layer}", np.float32, shape)
    return Cache(keys=keys, values=values, start=start)


def decoder_layer(  # noqa: PLR0913  (a graph fragment's wires)
    g: GraphBuilder,
    x: str,
    layer: int,
    weights: Weights,
    config: ModelConfig,
    *,
    positions: str,
    bias: str,
    cache: Cache,
    outputs: tuple[str, str] | None = None,
    tree: TreePlaces | None = None,
) -> str:
    """One pre-norm decoder layer; its written cache becomes the graph outputs `outputs`."""
    prefix = f"model.layers.{layer}"
    written = outputs or (f"{cache.keys}_out", f"{cache.values}_out")
    normed = rms_norm(g, x, f"{prefix}.input_layernorm.weight", weights, config)
    attended = attention(
        g, normed, f"{prefix}.self_attn", weights, config,
        positions=positions, bias=bias, cache=cache, outputs=written, tree=tree,
    )  # fmt: skip
    declare_written(g, written, config)
    x = g.op("Add", [x, attended])
    normed = rms_norm(g, x, f"{prefix}.post_attention_layernorm.weight", weights, config)
    return g.op("Add", [x, swiglu(g, normed, f"{prefix}.mlp", weights, config)])


def declare_written(g: GraphBuilder, names: tuple[str, str], config: ModelConfig) -> None:
    """Makes a layer's written keys and values graph outputs."""
    for name in names:
        g.output(name, np.float32, ("B", config.num_kv_heads, "T", config.head_dim))
