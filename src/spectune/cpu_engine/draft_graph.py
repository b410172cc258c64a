"""Graphs of the two drafts: the EAGLE-3 head and the one-layer stand-alone model.

A verify step leaves *pending* entries: tokens (and, for the head, target features) that the draft has not
seen yet. One graph call takes them in and drafts a whole chain: the loop over draft steps is unrolled
inside, each step's written cache being bound to the same memory as the step before.

For the head, entry i pairs the target's feature at position i with token i + 1; for the stand-alone
model, entry i is token i. `EntryReader` hides that difference.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from spectune.cpu_engine.graph_builder import GraphBuilder
from spectune.cpu_engine.layers import Cache, Weights, attention, causal_bias, linear, rms_norm, swiglu
from spectune.cpu_engine.model_config import ModelConfig
from spectune.cpu_engine.target_graph import chain_positions, declare_cache, declare_written, decoder_layer


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModel:
    """Weights and shape of a draft.

    Attributes:
        config: shape; a head has `target_hidden_size`.
        weights: float32 arrays by checkpoint name.
        token_ids: target token of each output row [draft_vocab].
    """

    config: ModelConfig
    weights: Weights
    token_ids: NDArray[np.int64]

    @property
    def is_head(self) -> bool:
        """Whether it reads target features."""
        return self.config.target_hidden_size > 0

    @property
    def feature_size(self) -> int:
        """Width of the target features per entry; 0 for a stand-alone draft."""
        return self.config.target_hidden_size * len(self.config.aux_layers)


def chain_session(draft: DraftModel, num_steps: int, num_threads: int) -> ort.InferenceSession:
    """The compiled chain of `num_steps` draft steps; 0 only takes the pending entries in.

    Inputs: `ids` [B, S] pending tokens; `start` [B] cache entry of the first; `valid` [B] how many of the S
    count (>= 1, or any when num_steps is 0); `features` [B, S, F] for a head; `key0`, `value0`.
    Outputs: `drafts` [B, num_steps] target token ids (absent at 0); `key0_out1`, … per step.
    """
    g = GraphBuilder()
    ids, start, valid = _pending_inputs(g)
    cache = declare_cache(g, draft.config, 0, start)
    positions = chain_positions(g, ids, start)
    feature = _first_feature(g, draft)
    y, cache = _layer(g, draft, ids, feature, positions, cache, 1)
    if num_steps == 0:
        return g.session(num_threads)
    y = _last_valid(g, y, ids, valid, draft.config.hidden_size)
    token = _best_token(g, draft, y)
    tokens = [token]
    place = g.op("Add", [start, valid])  # [B]
    for step in range(2, num_steps + 1):
        here = Cache(keys=cache.keys, values=cache.values, start=place)
        position = g.op("Unsqueeze", [place, g.ints(1)])
        y, cache = _layer(g, draft, token, y, position, here, step)
        token = _best_token(g, draft, y)
        tokens.append(token)
        place = g.op("Add", [place, g.ints(1)])
    g.named_op("Concat", tokens, "drafts", axis=1)
    g.output("drafts", np.int64, ("B", num_steps))
    return g.session(num_threads)


def tree_sessions(draft: DraftModel, num_threads: int) -> tuple[ort.InferenceSession, ort.InferenceSession]:
    """The compiled parts of tree drafting: (take pending entries in, one draft step over a row of nodes).

    First: inputs as `chain_session`; outputs `logits` [B, 1, draft_vocab] and `hidden` [B, 1, H] of each
    sequence's last valid entry. Second: `ids` [B, S], `hidden_in` [B, S, H] (heads only), `positions` [B, S],
    `bias` [B, 1, 1, S, T], `start` [B]; the same outputs for all S nodes.
    """
    first = GraphBuilder()
    ids, start, valid = _pending_inputs(first)
    cache = declare_cache(first, draft.config, 0, start)
    positions = chain_positions(first, ids, start)
    y, _ = _layer(first, draft, ids, _first_feature(first, draft), positions, cache, 1)
    _tree_outputs(first, draft, _last_valid(first, y, ids, valid, draft.config.hidden_size))
    step = GraphBuilder()
    ids = step.input("ids", np.int64, ("B", "S"))
    start = step.input("start", np.int64, ("B",))
    positions = step.input("positions", np.int64, ("B", "S"))
    bias = step.input("bias", np.float32, ("B", 1, 1, "S", "T"))
    hidden = (
        step.input("hidden_in", np.float32, ("B", "S", draft.config.hidden_size)) if draft.is_head else ""
    )
    cache = declare_cache(step, draft.config, 0, start)
    y, _ = _layer(step, draft, ids, hidden, positions, cache, 1, bias=bias)
    _tree_outputs(step, draft, y)
    return first.session(num_threads), step.session(num_threads)


def _pending_inputs(g: GraphBuilder) -> tuple[str, str, str]:
    return (
        g.input("ids", np.int64, ("B", "S")),
        g.input("start", np.int64, ("B",)),
        g.input("valid", np.int64, ("B",)),
    )


def _first_feature(g: GraphBuilder, draft: DraftModel) -> str:
    """The head's reading of the target's features [B, S, H]; "" for a stand-alone draft."""
    if not draft.is_head:
        return ""
    features = g.input("features", np.float32, ("B", "S", draft.feature_size))
    return linear(g, features, ("fc.weight",), draft.weights)


def _layer(  # noqa: PLR0913  (a graph fragment's wires)
    g: GraphBuilder,
    draft: DraftModel,
    ids: str,
    feature: str,
    positions: str,
    cache: Cache,
    step: int,
    *,
    bias: str | None = None,
) -> tuple[str, Cache]:
    """The draft's one layer over entries; returns its output [B, S, H] and the written cache."""
    mask = bias or causal_bias(g, positions, cache.keys)
    written = (f"key0_out{step}", f"value0_out{step}")
    layer: Callable[..., str] = _head_layer if draft.is_head else _model_layer
    y = layer(g, draft, ids, feature, positions=positions, bias=mask, cache=cache, outputs=written)
    return y, Cache(keys=written[0], values=written[1], start=cache.start)


def _head_layer(  # noqa: PLR0913
    g: GraphBuilder,
    draft: DraftModel,
    ids: str,
    feature: str,
    *,
    positions: str,
    bias: str,
    cache: Cache,
    outputs: tuple[str, str],
) -> str:
    w, config = draft.weights, draft.config
    embedded = g.op("Gather", [g.constant("embed", w["embed_tokens.weight"]), ids], axis=0)
    parts = [
        rms_norm(g, embedded, "midlayer.input_layernorm.weight", w, config),
        rms_norm(g, feature, "midlayer.hidden_norm.weight", w, config),
    ]
    joined = g.op("Concat", parts, axis=-1)  # [B, S, 2·H]
    attended = attention(
        g, joined, "midlayer.self_attn", w, config,
        positions=positions, bias=bias, cache=cache, outputs=outputs,
    )  # fmt: skip
    declare_written(g, outputs, config)
    x = g.op("Add", [feature, attended])
    normed = rms_norm(g, x, "midlayer.post_attention_layernorm.weight", w, config)
    return g.op("Add", [x, swiglu(g, normed, "midlayer.mlp", w, config)])


def _model_layer(  # noqa: PLR0913
    g: GraphBuilder,
    draft: DraftModel,
    ids: str,
    feature: str,  # noqa: ARG001  (a stand-alone draft reads none)
    *,
    positions: str,
    bias: str,
    cache: Cache,
    outputs: tuple[str, str],
) -> str:
    w = draft.weights
    x = g.op("Gather", [g.constant("embed", w["model.embed_tokens.weight"]), ids], axis=0)
    return decoder_layer(
        g, x, 0, w, draft.config, positions=positions, bias=bias, cache=cache, outputs=outputs
    )


def _last_valid(g: GraphBuilder, y: str, ids: str, valid: str, width: int) -> str:
    """Row valid − 1 of each sequence's entries: [B, S, H] → [B, 1, H]."""
    zero, one = (g.constant(name, np.array(n, np.int64)) for n, name in enumerate(("zero", "one")))
    count = g.op("Squeeze", [g.op("Shape", [ids], start=0, end=1), g.ints(0)])
    entries = g.op("Shape", [ids], start=1, end=2)
    first = g.op("Mul", [g.op("Range", [zero, count, one]), entries])
    index = g.op("Add", [first, g.op("Sub", [valid, one])])
    picked = g.op("Gather", [g.op("Reshape", [y, g.ints(-1, width)]), index], axis=0)
    return g.op("Unsqueeze", [picked, g.ints(1)])


def _logits(g: GraphBuilder, draft: DraftModel, y: str) -> str:
    norm, head = (
        ("norm.weight", "lm_head.weight") if draft.is_head else ("model.norm.weight", "lm_head.weight")
    )
    weights = draft.weights
    matrix = weights[head] if head in weights else weights["model.embed_tokens.weight"]
    normed = rms_norm(g, y, norm, weights, draft.config)
    return g.op("MatMul", [normed, g.constant("lm_head", matrix.T)])


def _best_token(g: GraphBuilder, draft: DraftModel, y: str) -> str:
    """Target id of the likeliest draft token [B, 1]."""
    best = g.op("ArgMax", [_logits(g, draft, y)], axis=-1, keepdims=0)
    return g.op("Gather", [g.constant("token_ids", draft.token_ids), best], axis=0)


def _tree_outputs(g: GraphBuilder, draft: DraftModel, y: str) -> None:
    g.output(g.named_op("Identity", [y], "hidden"), np.float32, ("B", "S", draft.config.hidden_size))
    logits = g.named_op("Identity", [_logits(g, draft, y)], "logits")
    g.output(logits, np.float32, ("B", "S", draft.config.draft_vocab_size))
