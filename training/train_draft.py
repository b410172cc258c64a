"""Distil the stand-alone draft from the target, within a wall-clock budget."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from common import Clock, Mixture, Optimizer, Schedule, report, set_up, sharpened, train
from modeling import DRAFT, Llama, load, load_target, save
from torch import Tensor


def loss_of(draft: Llama, target: Llama, tokens: Tensor, hard: float) -> Tensor:
    """Returns the soft cross-entropy and the share of right guesses."""
    with torch.no_grad():
        teacher, _ = target(tokens)
        wanted = sharpened(teacher, hard)
    logits, _ = draft(tokens)
    loss = -(wanted * logits.float().log_softmax(-1)).sum(-1).mean()
    hits = (logits.argmax(-1) == teacher.argmax(-1)).float().mean()
    return torch.stack((loss, hits))


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--own", type=Path, required=True, help="folder written by generate.py")
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="continue from this folder")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--hard", type=float, default=0.3)
    parser.add_argument("--own-share", type=float, default=0.6)
    parser.add_argument("--matrix-lr", type=float, default=0.02)
    parser.add_argument("--other-lr", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=4)
    return parser.parse_args()


def main() -> None:
    """Trains and saves."""
    args = parse()
    device = set_up(args.seed)
    data = Mixture.read(args.data, args.own, device)
    draft = Llama(DRAFT)
    if args.start:
        load(draft, args.start)
    draft = draft.to(device)
    target = load_target(args.target, device)
    optimizer = Optimizer(draft, args.matrix_lr, args.other_lr, 0.0)
    compiled = torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of

    def step(rows: Tensor, factor: float) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            figures: Tensor = compiled(draft, target, rows, args.hard)
        figures[0].backward()
        optimizer.step(factor)
        return figures.detach()

    for number in (4, 0):
        step(data.rows_at(number, args.batch, args.own_share), 0.0)  # compiles outside the budget
    done = train(
        Clock(args.seconds),
        Schedule(decay=0.6),
        lambda number, _: data.rows_at(number, args.batch, args.own_share),
        step,
        lambda: save(draft, args.out),
    )
    loss, hits = (round(value, 4) for value in done.latest.tolist())
    figures = {"tokens": done.tokens, "steps": done.steps, "seconds": args.seconds}
    report(args.out / "log.json", **figures, loss=loss, hits=hits)


if __name__ == "__main__":
    main()
