"""Measure acceptance on the target's own continuations of held-out prompts.

The draft proposes a chain of its most likely tokens; the target draws a token at
each position (the most likely one at temperature 0); a draft token is accepted
while it equals the target's. Rounds follow one another as an engine runs them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from common import fixed_windows, read_stream, set_up
from generate import continue_text
from modeling import DRAFT, EAGLE, Eagle, Llama, load, load_target
from tokenizers import Tokenizer
from torch import Tensor


@dataclass(frozen=True)
class Acceptance:
    """Rounds that reached each position, and rounds that were accepted there."""

    reached: list[int]
    accepted: list[int]

    @property
    def conditional(self) -> list[float]:
        """Acceptance rate of each position, given that those before were accepted."""
        return [round(a / max(1, r), 4) for a, r in zip(self.accepted, self.reached, strict=True)]

    @property
    def length(self) -> float:
        """Mean tokens a round, the target's own token counted in."""
        return round(1 + sum(self.accepted) / max(1, self.reached[0]), 3)


@torch.inference_mode()
def eagle_matches(head: Eagle, target: Llama, rows: Tensor, steps: int) -> Tensor:
    """Tells for every start and step whether the chain's token is the row's: [batch, length, steps]."""
    _, aux = target(rows, aux=True)
    assert aux is not None
    outputs = head.unroll(aux, rows, steps)
    tokens = head.draft_tokens
    guesses = [tokens[head.lm_head(hidden).argmax(-1)] for hidden in outputs]
    return torch.stack([guess == rows.roll(-2 - s, 1) for s, guess in enumerate(guesses)], -1)


@torch.inference_mode()
def draft_matches(draft: Llama, rows: Tensor, steps: int) -> Tensor:
    """The same for the stand-alone draft, whose guesses do not depend on the start."""
    logits, _ = draft(rows)
    right = logits.argmax(-1) == rows.roll(-1, 1)
    return torch.stack([right.roll(-1 - s, 1) for s in range(steps)], -1)


@torch.inference_mode()
def ceiling(target: Llama, rows: Tensor, prompt: int) -> float:
    """Mean probability of the target's most likely token: no chain of guesses can do better."""
    logits, _ = target(rows)
    return float(logits[:, prompt:].softmax(-1).amax(-1).mean())


def simulate(matches: Tensor, rows: Tensor, prompt: int, depth: int) -> Acceptance:
    """Runs rounds of ``depth`` draft tokens over the rows' continuations."""
    reached, accepted = [0] * depth, [0] * depth
    table, tokens = matches.tolist(), rows.tolist()
    for row, ids in zip(table, tokens, strict=True):
        end = ids.index(0, prompt) + 1 if 0 in ids[prompt:] else len(ids)
        position = prompt  # the newest known token; the head starts one before
        while position + depth < end:
            hits = 0
            for step in range(depth):
                reached[step] += 1
                if not row[position - 1][step]:
                    break
                accepted[step] += 1
                hits += 1
            position += hits + 1
    return Acceptance(reached, accepted)


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True, help="folder with target, eagle and draft")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--prompt-length", type=int, default=128)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--depth", type=int, default=8)
    return parser.parse_args()


def main() -> None:
    """Evaluates and prints one JSON object."""
    args = parse()
    device = set_up(5)
    torch.set_float32_matmul_precision("highest")
    target = load_target(args.models / "target", device)
    eagle, draft = Eagle(EAGLE), Llama(DRAFT)
    load(eagle, args.models / "eagle")
    load(draft, args.models / "draft")
    eagle, draft = eagle.to(device).eval(), draft.to(device).eval()
    tokenizer = Tokenizer.from_file(str(args.models / "target" / "tokenizer.json"))
    result: dict[str, object] = {}
    for text in ("heldout", "prose"):
        stream = read_stream(args.data / f"{text}.bin", device)
        prompts = fixed_windows(stream, args.prompts, args.prompt_length)
        for temperature in (0.0, 1.0):
            rows = continue_text(target, prompts, args.length, temperature)
            parts = rows.split(64)
            tables = {
                "eagle": torch.cat([eagle_matches(eagle, target, part, args.depth) for part in parts]),
                "draft": torch.cat([draft_matches(draft, part, args.depth) for part in parts]),
            }
            for name, table in tables.items():
                full = simulate(table, rows, args.prompt_length, args.depth)
                lengths = [
                    simulate(table, rows, args.prompt_length, k).length for k in range(1, args.depth + 1)
                ]
                result[f"{name} {text} temperature {temperature:g}"] = {
                    "conditional": full.conditional,
                    "length_by_depth": lengths,
                    "rounds": full.reached[0],
                }
            if temperature:
                best = sum(ceiling(target, part, args.prompt_length) for part in parts) / len(parts)
                result[f"ceiling {text} temperature {temperature:g}"] = round(best, 4)
            if temperature == 0:
                half = args.prompt_length // 2
                result[f"sample {text}"] = [
                    [
                        tokenizer.decode(ids[half : args.prompt_length]),
                        tokenizer.decode(ids[args.prompt_length : args.prompt_length + 96]),
                    ]
                    for ids in rows[3 :: max(1, args.prompts // 4)].tolist()
                ]
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    for name, figures in result.items():
        print(name, json.dumps(figures))


if __name__ == "__main__":
    main()
