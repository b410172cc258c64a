"""Let the target continue corpus prefixes; its own text trains the drafts.

Writes ``own.bin``, rows of ``--length`` uint16 tokens (prefix and continuation), and
``own.json`` with the row count and the token counts of the continuations.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from common import read_stream, sample_windows, set_up
from modeling import VOCAB_SIZE, Llama, load_target
from torch import Tensor


@torch.inference_mode()
def continue_text(model: Llama, prompts: Tensor, length: int, temperature: float) -> Tensor:
    """Extends prompts to ``length`` tokens, greedily at temperature 0."""
    batch, start = prompts.shape
    device = prompts.device
    cache = model.new_cache(batch, length, model.model.embed_tokens.weight.dtype)
    rows = torch.zeros(batch, length, dtype=torch.long, device=device)
    rows[:, :start] = prompts
    logits = model.step(prompts, cache, 0)
    for position in range(start, length):
        if temperature:
            noise = torch.empty_like(logits, dtype=torch.float32).exponential_()
            token = ((logits.float() / temperature).softmax(-1) / noise).argmax(-1)
        else:
            token = logits.argmax(-1)
        rows[:, position] = token
        if position + 1 < length:
            logits = model.step(token[:, None], cache, position)
    return rows


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--prefixes", type=int, nargs="+", default=[64, 256, 128, 384, 32, 192, 320, 448])
    parser.add_argument("--seed", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Generates and saves."""
    args = parse()
    device = set_up(args.seed)
    stream = read_stream(args.data / "train.bin", device)
    model = load_target(args.target, device)
    if device == "cuda":
        model = model.bfloat16()
    started, rows = time.monotonic(), []
    counts = torch.zeros(VOCAB_SIZE, dtype=torch.long, device=device)
    turn = 0
    while time.monotonic() - started < args.seconds:
        prefix = args.prefixes[turn % len(args.prefixes)]
        # Two greedy rounds for one sampled round: greedy text is the harder to come by.
        temperature = (0.0, 1.0, 0.0)[turn % 3]
        prompts = sample_windows(stream, args.batch, prefix)
        out = continue_text(model, prompts, args.length, temperature)
        counts += out[:, prefix:].flatten().bincount(minlength=VOCAB_SIZE)
        rows.append(out.to(torch.int32).cpu())
        turn += 1
        print(
            f"turn {turn}: prefix {prefix}, temperature {temperature}, {time.monotonic() - started:.1f} s",
            flush=True,
        )
    table = torch.cat(rows)
    table = table[torch.randperm(len(table))].numpy().astype("<u2")
    args.out.mkdir(parents=True, exist_ok=True)
    np.ascontiguousarray(table).tofile(args.out / "own.bin")
    summary = {
        "rows": len(table),
        "length": args.length,
        "tokens": int(counts.sum()),
        "counts": counts.tolist(),
    }
    (args.out / "own.json").write_text(json.dumps(summary) + "\n")
    frequent = sum(sorted(summary["counts"], reverse=True)[:2048]) / summary["tokens"]
    print(f"the 2048 most frequent tokens cover {frequent:.4f}", flush=True)
    print(f"{len(table)} rows, {summary['tokens']} generated tokens", flush=True)


if __name__ == "__main__":
    main()
