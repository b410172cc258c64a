"""Tiny models with random weights: every path of the engine in milliseconds, no bundled files."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from spectune.cpu_engine.draft_graph import DraftModel
from spectune.cpu_engine.drafter import Drafter, ModelDrafter, NgramDrafter, NoDrafter
from spectune.cpu_engine.engine import Engine
from spectune.cpu_engine.layers import Weights
from spectune.cpu_engine.messages import Submit
from spectune.cpu_engine.model_config import ModelConfig
from spectune.cpu_engine.options import EngineOptions
from spectune.cpu_engine.schedule import fixed
from spectune.cpu_engine.target import Target
from spectune.cpu_engine.tree_drafter import TreeDrafter

VOCAB = 24
TARGET = ModelConfig(
    vocab_size=VOCAB, hidden_size=32, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8,
    intermediate_size=48, max_positions=512, rope_theta=1e4, rms_eps=1e-5, draft_vocab_size=VOCAB,
)  # fmt: skip
HEAD = replace(
    TARGET, hidden_size=16, num_layers=1, num_heads=2, intermediate_size=24, draft_vocab_size=VOCAB - 4,
    target_hidden_size=32, aux_layers=(1, 2),
)  # fmt: skip


def _matrix(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    matrix: np.ndarray = (rng.normal(size=(rows, columns)) * 1.5 / np.sqrt(columns)).astype(np.float32)
    return matrix


def _block(rng: np.random.Generator, config: ModelConfig, prefix: str, attention_in: int) -> Weights:
    wide, kv, inner = (
        config.num_heads * config.head_dim,
        config.num_kv_heads * config.head_dim,
        config.intermediate_size,
    )
    size = config.hidden_size
    shapes = {
        "self_attn.q_proj": (wide, attention_in), "self_attn.k_proj": (kv, attention_in),
        "self_attn.v_proj": (kv, attention_in), "self_attn.o_proj": (size, wide),
        "mlp.gate_proj": (inner, size), "mlp.up_proj": (inner, size), "mlp.down_proj": (size, inner),
    }  # fmt: skip
    return {f"{prefix}.{name}.weight": _matrix(rng, *shape) for name, shape in shapes.items()}


def _ones(names: list[str], size: int) -> Weights:
    return {name: np.ones(size, np.float32) for name in names}


def model_weights(config: ModelConfig, seed: int) -> Weights:
    """A random Llama-architecture model."""
    rng = np.random.default_rng(seed)
    weights = {"model.embed_tokens.weight": rng.normal(size=(config.vocab_size, config.hidden_size))
               .astype(np.float32)}  # fmt: skip
    norms = ["model.norm.weight"]
    for layer in range(config.num_layers):
        prefix = f"model.layers.{layer}"
        weights |= _block(rng, config, prefix, config.hidden_size)
        norms += [f"{prefix}.input_layernorm.weight", f"{prefix}.post_attention_layernorm.weight"]
    return weights | _ones(norms, config.hidden_size)


def head_weights(config: ModelConfig, seed: int) -> Weights:
    """A random EAGLE-3 head."""
    rng = np.random.default_rng(seed)
    size = config.hidden_size
    weights = {
        "fc.weight": _matrix(rng, size, config.target_hidden_size * len(config.aux_layers)),
        "embed_tokens.weight": rng.normal(size=(config.vocab_size, size)).astype(np.float32),
        "lm_head.weight": _matrix(rng, config.draft_vocab_size, size),
    }
    weights |= _block(rng, config, "midlayer", 2 * size)
    names = ["input_layernorm", "hidden_norm", "post_attention_layernorm"]
    return weights | _ones([f"midlayer.{name}.weight" for name in names] + ["norm.weight"], size)


def noisy(weights: Weights, seed: int, size: float) -> Weights:
    """The weights with some noise: a draft that is often, not always, right."""
    rng = np.random.default_rng(seed)
    return {
        name: (value + size * rng.normal(size=value.shape) * value.std()).astype(np.float32)
        for name, value in weights.items()
    }


@dataclass(frozen=True)
class TinyModels:
    """Target weights, a stand-alone draft close to the target, an EAGLE head."""

    target: Weights
    draft: DraftModel
    head: DraftModel

    def draft_logits(self, tokens: list[int]) -> np.ndarray:
        """The stand-alone draft's scores after `tokens` by the slow reference [vocab]."""
        last: np.ndarray = reference_logits(self.draft.config, self.draft.weights, tokens)[-1]
        return last

    def engine(self, options: EngineOptions, num_slots: int) -> Engine:
        """An engine for the options, with `num_slots` slots."""
        draft = {"eagle": self.head, "draft_model": self.draft}.get(options.method)
        target = Target(
            TARGET,
            self.target,
            aux_layers=draft.config.aux_layers if draft else (),
            num_slots=num_slots,
            context_length=options.context_length,
            num_threads=1,
            with_trees=options.topk > 1,
        )
        return Engine(
            target,
            self._drafter(options, draft, num_slots + 1),
            num_draft_tokens=options.num_draft_tokens,
            lookahead=options.lookahead,
            prefill_tokens=options.prefill_tokens,
            prefix_bytes=options.prefix_bytes,
            corrupt_every=options.corrupt_every,
        )

    def _drafter(self, options: EngineOptions, draft: DraftModel | None, num_slots: int) -> Drafter:
        schedule = options.schedule or fixed(options.num_steps)
        if draft is None:
            return NgramDrafter(schedule) if options.method == "ngram" else NoDrafter()
        if options.topk == 1:
            return ModelDrafter(draft, schedule, num_slots, 1)
        return TreeDrafter(
            draft, num_steps=options.num_steps, topk=options.topk,
            num_draft_tokens=options.num_draft_tokens, num_slots=num_slots, num_threads=1,
        )  # fmt: skip


@pytest.fixture(scope="session")
def tiny() -> TinyModels:
    """The tiny models."""
    target = model_weights(TARGET, 1)
    one_layer = {name: value for name, value in noisy(target, 2, 0.02).items() if "layers.1" not in name}
    draft_config = replace(TARGET, num_layers=1)
    tokens = np.arange(VOCAB, dtype=np.int64)
    return TinyModels(
        target=target,
        draft=DraftModel(config=draft_config, weights=one_layer, token_ids=tokens),
        head=DraftModel(
            config=HEAD, weights=head_weights(HEAD, 3), token_ids=tokens[2 : 2 + HEAD.draft_vocab_size]
        ),
    )


Outputs = dict[int, list[int]]


@pytest.fixture(scope="session")
def generate() -> Callable[[Engine, list[Submit]], Outputs]:
    """Runs requests to their end; returns tokens by request id."""

    def run(engine: Engine, requests: list[Submit]) -> Outputs:
        for request in requests:
            engine.submit(request)
        outputs: Outputs = {request.request_id: [] for request in requests}
        while engine.has_work:
            output = engine.step()
            for request_id, tokens in zip(output.request_ids, output.tokens, strict=True):
                outputs.setdefault(request_id, []).extend(tokens)
        return outputs

    return run


@pytest.fixture(scope="session")
def requests() -> list[Submit]:
    """Greedy and sampled requests of mixed lengths."""
    rng = np.random.default_rng(5)
    return [
        Submit(
            request_id=n + 1,
            prompt=tuple(rng.integers(1, VOCAB, int(rng.integers(1, 90))).tolist()),
            max_tokens=int(rng.integers(1, 70)),
            temperature=(0.0, 0.0, 0.7, 1.3)[n % 4],
            top_p=0.9 if n % 3 == 0 else 1.0,
            top_k=5 if n % 5 == 0 else 0,
            seed=n,
            stops_at_eos=n % 6 != 0,
        )
        for n in range(24)
    ]


@pytest.fixture
def make_target(tiny: TinyModels) -> Callable[..., Target]:
    """Makes a target of two slots."""

    def make(*, aux_layers: tuple[int, ...] = (), with_trees: bool = False) -> Target:
        return Target(
            TARGET, tiny.target, aux_layers=aux_layers, num_slots=2, context_length=64,
            num_threads=1, with_trees=with_trees,
        )  # fmt: skip

    return make


@pytest.fixture(scope="session")
def slow_logits(tiny: TinyModels) -> Callable[[list[int]], np.ndarray]:
    """The target's logits by a plain float64 forward without a cache: [tokens, vocab]."""
    return lambda tokens: reference_logits(TARGET, tiny.target, tokens)


def reference_logits(config: ModelConfig, weights: Weights, tokens: list[int]) -> np.ndarray:
    """A Llama forward written for reading, not for speed."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config.num_layers):
        name = f"model.layers.{layer}"
        x = x + _slow_attention(config, w, name, _slow_norm(x, w[f"{name}.input_layernorm.weight"], config))
        h = _slow_norm(x, w[f"{name}.post_attention_layernorm.weight"], config)
        gate, up = h @ w[f"{name}.mlp.gate_proj.weight"].T, h @ w[f"{name}.mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{name}.mlp.down_proj.weight"].T
    out: np.ndarray = _slow_norm(x, w["model.norm.weight"], config) @ w["model.embed_tokens.weight"].T
    return out


def _slow_norm(x: np.ndarray, scale: np.ndarray, config: ModelConfig) -> np.ndarray:
    out: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + config.rms_eps) * scale
    return out


def _slow_attention(config: ModelConfig, w: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    count, dim = len(x), config.head_dim
    heads = {}
    for part, number in (("q", config.num_heads), ("k", config.num_kv_heads), ("v", config.num_kv_heads)):
        heads[part] = (x @ w[f"{name}.self_attn.{part}_proj.weight"].T).reshape(count, number, dim)
    q, k = _slow_rotary(heads["q"], config), _slow_rotary(heads["k"], config)
    out = np.zeros((count, config.num_heads, dim))
    for head in range(config.num_heads):
        shared = head // config.group
        for place in range(count):
            scores = k[: place + 1, shared] @ q[place, head] / np.sqrt(dim)
            shares = np.exp(scores - scores.max())
            out[place, head] = shares @ heads["v"][: place + 1, shared] / shares.sum()
    mixed: np.ndarray = out.reshape(count, -1) @ w[f"{name}.self_attn.o_proj.weight"].T
    return mixed


def _slow_rotary(x: np.ndarray, config: ModelConfig) -> np.ndarray:
    half = config.head_dim // 2
    frequencies = config.rope_theta ** (-np.arange(half) / half)
    angles = np.arange(len(x))[:, None] * frequencies
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
