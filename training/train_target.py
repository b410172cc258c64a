"""Train the target on windows of the corpus, within a wall-clock budget."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from common import (
    Clock,
    Optimizer,
    Schedule,
    fixed_windows,
    read_stream,
    report,
    sample_windows,
    set_up,
    train,
)
from modeling import TARGET, Llama, load, save
from torch import Tensor


def loss_of(model: Llama, tokens: Tensor) -> Tensor:
    """Mean next-token cross-entropy."""
    logits, _ = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: Llama, stream: Tensor, length: int, device: str) -> float:
    """Mean loss on 64 windows."""
    with torch.autocast(device, torch.bfloat16):
        windows = fixed_windows(stream, 64, length).split(16)
        return sum(loss_of(model, some).item() for some in windows) / len(windows)


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="continue from this folder")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--matrix-lr", type=float, default=0.02)
    parser.add_argument("--other-lr", type=float, default=0.003)
    parser.add_argument("--decay", type=float, default=0.02, help="weight decay of the matrices")
    parser.add_argument(
        "--long-share", type=float, default=0.06, help="last share of the budget at twice the length"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Trains and saves."""
    args = parse()
    device = set_up(args.seed)
    stream = read_stream(args.data / "train.bin", device)
    model = Llama(TARGET)
    if args.start:
        load(model, args.start)
    model = model.to(device)
    optimizer = Optimizer(model, args.matrix_lr, args.other_lr, args.decay)
    compiled = torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of

    def rows_at(step: int, progress: float) -> Tensor:
        del step
        if progress > 1 - args.long_share:
            return sample_windows(stream, args.batch // 2, 2 * args.length + 1)
        return sample_windows(stream, args.batch, args.length + 1)

    def step(rows: Tensor, factor: float) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            loss: Tensor = compiled(model, rows)
        loss.backward()
        optimizer.step(factor)
        return loss.detach()

    for progress in (1.0, 0.0):
        step(rows_at(0, progress), 0.0)  # compiles outside the budget
    done = train(Clock(args.seconds), Schedule(), rows_at, step, lambda: save(model, args.out))
    heldout = read_stream(args.data / "heldout.bin", device)
    prose = read_stream(args.data / "prose.bin", device)
    report(
        args.out / "log.json",
        tokens=done.tokens,
        steps=done.steps,
        seconds=args.seconds,
        last_loss=round(done.latest.item(), 4),
        heldout_loss=round(evaluate(model, heldout, 1024, device), 4),
        heldout_loss_2048=round(evaluate(model, heldout, 2048, device), 4),
        prose_loss=round(evaluate(model, prose, 1024, device), 4),
    )


if __name__ == "__main__":
    main()
