"""The models in plain PyTorch, with Hugging Face tensor names.

``Llama`` serves as the target and as the stand-alone draft. ``Eagle`` is an
EAGLE-3-style head: one decoder layer over the target's hidden states.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from chain_attention import attend
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

VOCAB_SIZE = 4096


@dataclass(frozen=True)
class LayerConfig:
    """Shape of a decoder layer."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float = 1e-5
    theta: float = 10_000.0


@dataclass(frozen=True)
class LlamaConfig:
    """Shape of a Llama model."""

    layer: LayerConfig
    layers: int
    max_positions: int = 2048


@dataclass(frozen=True)
class EagleConfig:
    """Shape of the EAGLE-3 head."""

    layer: LayerConfig
    target_hidden: int
    draft_vocab: int
    aux_layers: tuple[int, ...] = (1, 2, 3)


TARGET = LlamaConfig(LayerConfig(384, 4, 2, 64, 1408), layers=4)
DRAFT = LlamaConfig(LayerConfig(256, 4, 2, 64, 768), layers=1)
EAGLE = EagleConfig(LayerConfig(256, 4, 2, 64, 512), target_hidden=384, draft_vocab=2048)


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Scales to unit mean square, then by the weight."""
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, c: LayerConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.up_proj = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.down_proj = nn.Linear(c.intermediate, c.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Applies the block to the last dimension."""
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


def rope_table(c: LayerConfig, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns cosines and sines [length, head_dim / 2] in float32."""
    steps = torch.arange(0, c.head_dim, 2, device=positions.device).float()
    angles = positions.float()[:, None] * c.theta ** (-steps / c.head_dim)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Applies rotary positions to [batch, heads, length, head_dim], half-rotation convention."""
    cos, sin = table
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention projections."""

    def __init__(self, c: LayerConfig, inputs: int) -> None:
        super().__init__()
        self.config = c
        self.q_proj = nn.Linear(inputs, c.heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, c.kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, c.kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.heads * c.head_dim, c.hidden, bias=False)

    def project(self, x: Tensor, table: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Returns rotated queries and keys, and values: [batch, heads, length, head_dim]."""
        shape = (*x.shape[:2], -1, self.config.head_dim)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return rotate(q, table), rotate(k, table), v

    def output(self, y: Tensor) -> Tensor:
        """Joins the heads and projects."""
        joined: Tensor = self.o_proj(y.transpose(1, 2).flatten(2))
        return joined


class Layer(nn.Module):
    """A pre-norm decoder layer."""

    def __init__(self, c: LayerConfig) -> None:
        super().__init__()
        self.self_attn = Attention(c, c.hidden)
        self.mlp = Mlp(c)
        self.input_layernorm = RMSNorm(c.hidden, c.eps)
        self.post_attention_layernorm = RMSNorm(c.hidden, c.eps)

    def forward(
        self, x: Tensor, table: tuple[Tensor, Tensor], cache: list[Tensor] | None = None, start: int = 0
    ) -> Tensor:
        """Runs the layer; with a cache, keys and values are kept at ``start`` onwards."""
        q, k, v = self.self_attn.project(self.input_layernorm(x), table)
        if cache is not None:
            end = start + x.shape[1]
            cache[0][:, :, start:end], cache[1][:, :, start:end] = k, v
            k, v = cache[0][:, :, :end], cache[1][:, :, :end]
        if x.shape[1] == 1:
            # One query: the heads that share keys stand in for query positions.
            shared = q.view(q.shape[0], k.shape[1], -1, q.shape[-1])
            y = F.scaled_dot_product_attention(shared, k, v).reshape(q.shape)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.self_attn.output(y)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, c: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB_SIZE, c.layer.hidden)
        self.layers = nn.ModuleList(Layer(c.layer) for _ in range(c.layers))
        self.norm = RMSNorm(c.layer.hidden, c.layer.eps)


class Llama(nn.Module):
    """A Llama language model with tied embeddings."""

    def __init__(self, c: LlamaConfig) -> None:
        super().__init__()
        self.config = c
        self.model = Decoder(c)
        initialize(self, c.layers)

    def forward(self, tokens: Tensor, *, aux: bool = False) -> tuple[Tensor, Tensor | None]:
        """Returns logits and, if asked, the hidden states after layers 1, 2 and 3, joined."""
        table = rope_table(self.config.layer, torch.arange(tokens.shape[1], device=tokens.device))
        x = self.model.embed_tokens(tokens)
        states = []
        for layer in self.model.layers:
            x = layer(x, table)
            states.append(x)
        logits = F.linear(self.model.norm(x), self.model.embed_tokens.weight)
        return logits, torch.cat(states[:3], -1) if aux else None

    def new_cache(self, batch: int, length: int, dtype: torch.dtype) -> list[list[Tensor]]:
        """Returns empty keys and values for every layer."""
        c, device = self.config.layer, self.model.embed_tokens.weight.device
        shape = (batch, c.kv_heads, length, c.head_dim)
        return [[torch.empty(shape, dtype=dtype, device=device) for _ in range(2)] for _ in self.model.layers]

    def step(self, tokens: Tensor, cache: list[list[Tensor]], start: int) -> Tensor:
        """Runs tokens at ``start`` onwards and returns the last position's logits."""
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        table = rope_table(self.config.layer, positions)
        x = self.model.embed_tokens(tokens)
        for layer, part in zip(self.model.layers, cache, strict=True):
            x = layer(x, table, part, start)
        return F.linear(self.model.norm(x[:, -1]), self.model.embed_tokens.weight)


class EagleLayer(nn.Module):
    """The head's decoder layer; its attention reads token and feature side by side."""

    def __init__(self, c: LayerConfig) -> None:
        super().__init__()
        self.self_attn = Attention(c, 2 * c.hidden)
        self.mlp = Mlp(c)
        self.input_layernorm = RMSNorm(c.hidden, c.eps)
        self.hidden_norm = RMSNorm(c.hidden, c.eps)
        self.post_attention_layernorm = RMSNorm(c.hidden, c.eps)


class Eagle(nn.Module):
    """EAGLE-3-style draft head."""

    d2t: Tensor
    t2d: Tensor

    def __init__(self, c: EagleConfig, draft_tokens: Tensor | None = None) -> None:
        super().__init__()
        self.config = c
        hidden = c.layer.hidden
        self.embed_tokens = nn.Embedding(VOCAB_SIZE, hidden)
        self.fc = nn.Linear(len(c.aux_layers) * c.target_hidden, hidden, bias=False)
        self.midlayer = EagleLayer(c.layer)
        self.norm = RMSNorm(hidden, c.layer.eps)
        self.lm_head = nn.Linear(hidden, c.draft_vocab, bias=False)
        tokens = torch.arange(c.draft_vocab) if draft_tokens is None else draft_tokens
        self.register_buffer("d2t", tokens - torch.arange(c.draft_vocab))
        self.register_buffer("t2d", torch.zeros(VOCAB_SIZE, dtype=torch.bool).index_fill(0, tokens, True))
        initialize(self, 1)

    @property
    def draft_tokens(self) -> Tensor:
        """Target ids of the draft vocabulary."""
        return self.d2t + torch.arange(self.config.draft_vocab, device=self.d2t.device)

    def unroll(self, aux: Tensor, tokens: Tensor, steps: int) -> list[Tensor]:
        """Drafts ``steps`` tokens from every position, as sequential inference would.

        A chain that starts at position i first reads the target's features there and
        token i + 1; its step s reads its own last output and token i + s + 1. It attends
        to the true entries 0..i and to its own entries of steps 1..s. Positions near the
        end read wrapped-around tokens; callers mask them.

        Args:
            aux: Target features [batch, length, 3 * target_hidden].
            tokens: Token ids [batch, length].
            steps: Number of steps.

        Returns:
            Normalized outputs [batch, length, hidden] of each step; ``lm_head`` maps them
            to draft logits for token i + s + 2.
        """
        c = self.config.layer
        where = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.fc(aux)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        outputs = []
        for step in range(steps):
            q, k, v = self.read(x, tokens.roll(-1 - step, 1), *rope_table(c, where + step))
            keys.append(k)
            values.append(v)
            x, hidden = self.write(x, attend(q, keys, values))
            outputs.append(hidden)
        return outputs

    def read(self, x: Tensor, tokens: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values of new entries, with all query heads' keys."""
        layer, c = self.midlayer, self.config.layer
        embedded = layer.input_layernorm(self.embed_tokens(tokens).to(x.dtype))
        both = torch.cat((embedded, layer.hidden_norm(x)), -1)
        q, k, v = layer.self_attn.project(both, (cos, sin))
        groups = c.heads // c.kv_heads
        return q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)

    def write(self, x: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the layer's output, and the same normalized for ``lm_head``."""
        layer = self.midlayer
        h = x + layer.self_attn.output(attended)
        y = h + layer.mlp(layer.post_attention_layernorm(h))
        return y, self.norm(y)


def initialize(model: nn.Module, layers: int) -> None:
    """Normal weights; the projections that write to the residual stream start smaller."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            small = name.endswith(("o_proj.weight", "down_proj.weight"))
            nn.init.normal_(parameter, std=0.02 / (2 * layers) ** 0.5 if small else 0.02)


def llama_json(c: LlamaConfig) -> dict[str, Any]:
    """Returns the Hugging Face config.json of a Llama model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "head_dim": c.layer.head_dim,
        "hidden_act": "silu",
        "hidden_size": c.layer.hidden,
        "initializer_range": 0.02,
        "intermediate_size": c.layer.intermediate,
        "max_position_embeddings": c.max_positions,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": c.layer.heads,
        "num_hidden_layers": c.layers,
        "num_key_value_heads": c.layer.kv_heads,
        "pad_token_id": 0,
        "rms_norm_eps": c.layer.eps,
        "rope_scaling": None,
        "rope_theta": c.layer.theta,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "vocab_size": VOCAB_SIZE,
    }


def eagle_json(c: EagleConfig) -> dict[str, Any]:
    """Returns the config.json of the head."""
    base = llama_json(LlamaConfig(c.layer, layers=1))
    return base | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": c.draft_vocab,
        "eagle_aux_hidden_state_layer_ids": list(c.aux_layers),
        "target_hidden_size": c.target_hidden,
        "tie_word_embeddings": False,
    }


def save(model: Llama | Eagle, folder: Path) -> None:
    """Writes config.json and a float16 model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = llama_json(model.config) if isinstance(model, Llama) else eagle_json(model.config)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {
        name: (value.half() if value.is_floating_point() else value).detach().cpu().contiguous()
        for name, value in model.state_dict().items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def load(model: Llama | Eagle, folder: Path) -> None:
    """Loads the weights that ``save`` wrote."""
    model.load_state_dict(load_file(folder / "model.safetensors"))


def load_target(folder: Path, device: str) -> Llama:
    """Loads the target, without gradients."""
    model = Llama(TARGET)
    load(model, folder)
    return model.to(device).eval().requires_grad_(False)


def describe(config: LlamaConfig | EagleConfig) -> str:
    """Returns a config as one line."""
    return json.dumps(asdict(config))
