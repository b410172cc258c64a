"""Reads bundled models: 16-bit safetensors to float32 arrays."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from spectune.cpu_engine.draft_graph import DraftModel
from spectune.cpu_engine.layers import Weights
from spectune.cpu_engine.model_config import ModelConfig, read_config

MODELS = Path(__file__).parent / "models"


def read_target(folder: Path = MODELS / "target") -> tuple[ModelConfig, Weights]:
    """Shape and weights of the target."""
    return read_config(folder), _read_weights(folder)


def read_draft(folder: Path) -> DraftModel:
    """An EAGLE-3 head (its `d2t` holds target id − draft id) or a stand-alone draft."""
    config = read_config(folder)
    raw = load_file(folder / "model.safetensors")
    rows = np.arange(config.draft_vocab_size, dtype=np.int64)
    if "d2t" in raw:
        rows = rows + raw["d2t"].astype(np.int64)
    return DraftModel(config=config, weights=_as_float32(raw), token_ids=rows)


def _read_weights(folder: Path) -> Weights:
    return _as_float32(load_file(folder / "model.safetensors"))


def _as_float32(raw: dict[str, np.ndarray]) -> Weights:
    return {name: value.astype(np.float32) for name, value in raw.items() if value.dtype.kind == "f"}
