"""Write the reference forward that the embedded engine's tests compare against.

Everything is computed in float32 with the float16-rounded weights. The head's
chain is run token by token here, apart from ``Eagle.unroll``, and checked against it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from generate import continue_text
from modeling import DRAFT, EAGLE, Eagle, Llama, load, load_target, rope_table
from tokenizers import Tokenizer
from torch import Tensor


class SequentialHead:
    """Runs the head one entry at a time, with a key-value cache."""

    def __init__(self, head: Eagle) -> None:
        self.head = head
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def entry(self, feature: Tensor, token: int) -> Tensor:
        """Adds the entry of the next position; returns its output before the final norm."""
        head, layer, c = self.head, self.head.midlayer, self.head.config.layer
        embedded = layer.input_layernorm(head.embed_tokens.weight[token])
        both = torch.cat((embedded, layer.hidden_norm(feature)))[None, None]
        table = rope_table(c, torch.tensor([len(self.keys)]))
        q, k, v = layer.self_attn.project(both, table)
        self.keys.append(k)
        self.values.append(v)
        keys, values = torch.cat(self.keys, 2), torch.cat(self.values, 2)
        y = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        h = feature + layer.self_attn.output(y)[0, 0]
        out: Tensor = h + layer.mlp(layer.post_attention_layernorm(h))
        return out

    def logits(self, out: Tensor) -> Tensor:
        """Returns draft logits."""
        result: Tensor = self.head.lm_head(self.head.norm(out))
        return result


@torch.inference_mode()
def reference(
    target: Llama, eagle: Eagle, draft: Llama, prompt: list[int], chain: int
) -> dict[str, np.ndarray]:
    """Returns the arrays; see the README of training/ for what each is."""
    tokens = torch.tensor([prompt])
    logits, aux = target(tokens, aux=True)
    assert aux is not None
    greedy = continue_text(target, tokens, len(prompt) + 32, 0.0)[0, len(prompt) :].tolist()
    head = SequentialHead(eagle)
    following = [*prompt[1:], greedy[0]]
    out = torch.empty(0)
    for position, token in enumerate(following):
        out = head.entry(eagle.fc(aux[0, position]), token)
    first = head.logits(out)
    drafted = [int(eagle.draft_tokens[first.argmax()])]
    while len(drafted) < chain:
        out = head.entry(out, drafted[-1])
        drafted.append(int(eagle.draft_tokens[head.logits(out).argmax()]))
    # The same chain through the code that trained it.
    rows = torch.tensor([[*prompt, greedy[0], *drafted]])
    _, wide = target(rows, aux=True)
    assert wide is not None
    for step, hidden in enumerate(eagle.unroll(wide, rows, chain)):
        guess = eagle.lm_head(hidden[0, len(prompt) - 1])
        assert int(eagle.draft_tokens[guess.argmax()]) == drafted[step]
        if step == 0:
            assert torch.allclose(guess, first, atol=1e-3), (guess - first).abs().max()
    return {
        "token_ids": np.array(prompt, dtype=np.int64),
        "target_logits_last8": logits[0, -8:].numpy(),
        "aux_features_last4": aux[0, -4:].numpy(),
        "greedy_tokens": np.array(greedy, dtype=np.int64),
        "eagle_first_logits": first.numpy(),
        "eagle_chain": np.array(drafted, dtype=np.int64),
        "draft_logits_last": draft(tokens)[0][0, -1].numpy(),
    }


def main() -> None:
    """Computes and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heldout", type=Path, required=True, help="heldout.jsonl")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--path", default="json/decoder.py")
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--skip", type=int, default=600, help="tokens of the file before the prompt")
    args = parser.parse_args()
    torch.manual_seed(0)
    texts = {row["path"]: row["text"] for row in map(json.loads, args.heldout.read_text().splitlines())}
    tokenizer = Tokenizer.from_file(str(args.models / "target" / "tokenizer.json"))
    prompt = tokenizer.encode(texts[args.path]).ids[args.skip : args.skip + args.length]
    target = load_target(args.models / "target", "cpu")
    eagle, draft = Eagle(EAGLE), Llama(DRAFT)
    load(eagle, args.models / "eagle")
    load(draft, args.models / "draft")
    arrays = reference(target, eagle, draft, prompt, chain=5)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(args.out, **arrays)
    print({name: array.shape for name, array in arrays.items()}, args.out.stat().st_size)
    print(tokenizer.decode(prompt), "=>", tokenizer.decode(arrays["greedy_tokens"].tolist()))


if __name__ == "__main__":
    main()
