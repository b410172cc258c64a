"""Shapes of the bundled models, read from their Hugging Face `config.json`."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shape of a Llama-architecture model or of an EAGLE-3 head.

    Attributes:
        vocab_size: rows of the embedding.
        hidden_size: width of the residual stream.
        num_layers: decoder layers (1 for a head).
        num_heads: query heads.
        num_kv_heads: key/value heads; divides num_heads.
        head_dim: width of a head.
        intermediate_size: width of the MLP.
        max_positions: longest context in tokens.
        rope_theta: base of the rotary embedding.
        rms_eps: epsilon of RMSNorm.
        draft_vocab_size: rows of a head's output matrix; vocab_size for a full model.
        target_hidden_size: width of the target whose features a head reads; 0 for a full model.
        aux_layers: a head's features are the target's residual streams after this many layers each.
        eos_token_id: end of text.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    rope_theta: float
    rms_eps: float
    draft_vocab_size: int
    target_hidden_size: int = 0
    aux_layers: tuple[int, ...] = ()
    eos_token_id: int = 0

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.num_heads // self.num_kv_heads

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes one token takes in the float32 cache, keys and values of all layers."""
        return self.num_layers * self.num_kv_heads * self.head_dim * 2 * 4


def read_config(folder: Path) -> ModelConfig:
    """The config of the model in `folder`."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rope = raw.get("rope_parameters") or {}
    return ModelConfig(
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=raw.get("head_dim", raw["hidden_size"] // raw["num_attention_heads"]),
        intermediate_size=raw["intermediate_size"],
        max_positions=raw["max_position_embeddings"],
        rope_theta=float(raw.get("rope_theta", rope.get("rope_theta", 10000.0))),
        rms_eps=raw["rms_norm_eps"],
        draft_vocab_size=raw.get("draft_vocab_size", raw["vocab_size"]),
        target_hidden_size=raw.get("target_hidden_size", 0),
        aux_layers=tuple(raw.get("eagle_aux_hidden_state_layer_ids", ())),
        eos_token_id=raw.get("eos_token_id", 0) or 0,
    )
