"""The bundled models as files that real engines load: Hugging Face folders for vLLM, GGUF for llama-server.

    python tools/export_models.py src/spectune/cpu_engine/models OUT [--type f32]

Needs `gguf`, `numpy` and `safetensors` and nothing of spectune. The bundled files are in the Hugging Face
layout already, so those folders are copies. GGUF has its own names, and two things differ in content:

    attn_q, attn_k   [heads · head_dim, inputs]: llama.cpp rotates neighbours (2i, 2i+1) of a head, the
                     Hugging Face layout rotates (i, i + head_dim/2); the rows are put in llama.cpp's order
    d2t              [draft_vocab]: the target's token ids themselves, the bundled file holds id − draft id
"""

import argparse
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

MODELS = ("target", "draft", "eagle")
ARCHITECTURES = {"LlamaForCausalLM": "llama", "LlamaForCausalLMEagle3": "eagle3"}
_CONTROL, _NORMAL = 3, 1  # token types of llama.cpp
_MOSTLY_F16, _ALL_F32 = 1, 0  # its file types

_WHOLE = {
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "fc": "fc",
}  # fmt: skip
_IN_LAYER = {
    "input_layernorm": "attn_norm", "hidden_norm": "attn_norm_2", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
_LAYER = re.compile(r"(?:layers\.(?P<number>\d+)|midlayer)\.(?P<part>.+)")


class CannotExport(Exception):
    """A bundled model is not what this tool knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a model's `config.json` says, as far as a GGUF file tells it.

    Attributes:
        architecture: llama.cpp's name of it.
        aux_layers: layers of the target whose outputs the EAGLE head reads, counted from 1; empty elsewhere.
        target_width: of the target's residual stream, for an EAGLE head; 0 elsewhere.
    """

    architecture: str
    vocabulary: int
    context: int
    width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_width: int
    norm_epsilon: float
    rope_base: float
    aux_layers: tuple[int, ...]
    target_width: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """From `config.json`; raises CannotExport on another architecture."""
        told = json.loads(path.read_text(encoding="utf-8"))
        names = told["architectures"]
        if len(names) != 1 or names[0] not in ARCHITECTURES:
            raise CannotExport(
                f"{path}: `architectures` must be one of {', '.join(ARCHITECTURES)}, got {names}."
            )
        return cls(
            architecture=ARCHITECTURES[names[0]],
            vocabulary=told["vocab_size"],
            context=told["max_position_embeddings"],
            width=told["hidden_size"],
            num_layers=told["num_hidden_layers"],
            num_heads=told["num_attention_heads"],
            num_kv_heads=told["num_key_value_heads"],
            head_dim=told["head_dim"],
            mlp_width=told["intermediate_size"],
            norm_epsilon=told["rms_norm_eps"],
            rope_base=told["rope_theta"],
            aux_layers=tuple(told.get("eagle_aux_hidden_state_layer_ids", ())),
            target_width=told.get("target_hidden_size", 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """A byte-level BPE with GPT-2's words, whose token 0 is the only added one.

    Attributes:
        tokens: by id.
        merges: "left right", in order of rank.
    """

    tokens: list[str]
    merges: list[str]

    @classmethod
    def read(cls, path: Path, vocabulary: int) -> Self:
        """From `tokenizer.json`; raises CannotExport on another kind."""
        told = json.loads(path.read_text(encoding="utf-8"))
        model, words = told["model"], told["pre_tokenizer"]
        if (model["type"], words["type"], words.get("use_regex")) != ("BPE", "ByteLevel", True):
            raise CannotExport(f"{path}: `a byte-level BPE with GPT-2's words` must hold.")
        ids = model["vocab"]
        tokens = sorted(ids, key=ids.__getitem__)
        are_all = [ids[token] for token in tokens] == list(range(vocabulary))
        if not are_all or [token["id"] for token in told["added_tokens"]] != [0]:
            raise CannotExport(f"{path}: `ids are 0..{vocabulary - 1}, one added token: 0` must hold.")
        return cls(tokens=tokens, merges=[" ".join(merge) for merge in model["merges"]])


def gguf_name(name: str) -> str:
    """llama.cpp's name of a tensor; raises CannotExport on one it has no name for.

    >>> gguf_name("model.layers.2.self_attn.q_proj.weight")
    'blk.2.attn_q.weight'
    >>> gguf_name("midlayer.hidden_norm.weight")
    'blk.0.attn_norm_2.weight'
    """
    stem = name.removeprefix("model.").removesuffix(".weight")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.weight"
    found = _LAYER.fullmatch(stem)
    if found is None or found["part"] not in _IN_LAYER:
        raise CannotExport(f"tensor {name}: `a name of a Llama or EAGLE-3 model` must hold.")
    return f"blk.{found['number'] or 0}.{_IN_LAYER[found['part']]}.weight"


def rotated_rows(weight: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """The rows of a query or key matrix, [heads · head_dim, inputs], in llama.cpp's order.

    >>> rotated_rows(np.arange(4, dtype=np.float32)[:, None], 1)[:, 0].tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    rows, inputs = weight.shape
    halves = weight.reshape(num_heads, 2, rows // num_heads // 2, inputs)
    return halves.swapaxes(1, 2).reshape(rows, inputs)


def write_gguf(folder: Path, tokenizer: Path, out: Path, *, is_f32: bool) -> None:
    """One model as a GGUF file; norms are float32 in either type, as llama.cpp computes them so."""
    shape = Shape.read(folder / "config.json")
    writer = gguf.GGUFWriter(str(out), shape.architecture)
    _add_shape(writer, shape, is_f32=is_f32)
    _add_tokenizer(writer, Tokenizer.read(tokenizer, shape.vocabulary))
    for name, array in sorted(load_file(folder / "model.safetensors").items()):
        if name == "t2d":  # the way back from d2t; nobody reads it
            continue
        if name == "d2t":
            writer.add_tensor("d2t", (array + np.arange(len(array))).astype(np.int64))
            continue
        weight = array.astype(np.float32)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = shape.num_heads if name.endswith("q_proj.weight") else shape.num_kv_heads
            weight = rotated_rows(weight, heads)
        is_matrix = weight.ndim == 2  # rows and columns; norms have one axis
        stored = weight.astype(np.float16) if is_matrix and not is_f32 else weight
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: gguf.GGUFWriter, shape: Shape, *, is_f32: bool) -> None:
    writer.add_name("spectune bundled model")
    writer.add_file_type(_ALL_F32 if is_f32 else _MOSTLY_F16)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.num_layers)
    writer.add_feed_forward_length(shape.mlp_width)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    if shape.aux_layers:
        writer.add_array(f"{shape.architecture}.target_layers", list(shape.aux_layers))
        writer.add_uint32(f"{shape.architecture}.target_hidden_size", shape.target_width)


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    """A byte-level BPE that splits words as GPT-2 does; its one added token begins and ends a text."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types([_CONTROL, *[_NORMAL] * (len(tokenizer.tokens) - 1)])
    writer.add_token_merges(tokenizer.merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)


def export(models: Path, out: Path, *, is_f32: bool) -> None:
    """Writes OUT/hf/NAME/ and OUT/gguf/NAME.gguf for the target, the draft and the EAGLE head."""
    (out / "gguf").mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        shutil.copytree(models / name, out / "hf" / name, dirs_exist_ok=True)
        tokenizer = models / "target" / "tokenizer.json"  # the head has none of its own
        write_gguf(models / name, tokenizer, out / "gguf" / f"{name}.gguf", is_f32=is_f32)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, help="folder with target/, draft/ and eagle/")
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=("f16", "f32"), default="f16", help="of the matrices in GGUF files")
    arguments = parser.parse_args()
    try:
        export(arguments.models, arguments.out, is_f32=arguments.type == "f32")
    except CannotExport as problem:
        print(f"export_models: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
