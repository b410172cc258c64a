"""Train the EAGLE-3-style head with training-time test, within a wall-clock budget.

Every batch is unrolled for several sequential steps: a chain reads its own last
output, as at inference, and attends to its own entries. The loss is the soft
cross-entropy against the target on the draft vocabulary, less for later steps.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from common import Clock, Mixture, Optimizer, Schedule, report, set_up, sharpened, train
from modeling import EAGLE, Eagle, Llama, load, load_target, save
from torch import Tensor


def choose_tokens(counts: Tensor, size: int) -> Tensor:
    """Returns the most frequent tokens, sorted."""
    return counts.argsort(descending=True, stable=True)[:size].sort().values


def target_side(
    target: Llama, tokens: Tensor, draft_tokens: Tensor, t2d: Tensor, hard: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns features, distributions on the draft vocabulary and where those count."""
    logits, aux = target(tokens, aux=True)
    assert aux is not None
    wanted = t2d[logits.argmax(-1)].float()
    return aux.bfloat16(), sharpened(logits[..., draft_tokens], hard).bfloat16(), wanted


def step_loss(hidden: Tensor, head: Tensor, wanted: Tensor, mask: Tensor) -> Tensor:
    """Masked soft cross-entropy of one step, and the share of right guesses."""
    logits = F.linear(hidden.to(head.dtype), head).float()
    losses = -(wanted * logits.log_softmax(-1)).sum(-1)
    hits = (logits.argmax(-1) == wanted.argmax(-1)).float()
    return torch.stack(((losses * mask).sum(), (hits * mask).sum())) / mask.sum()


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--own", type=Path, required=True, help="folder written by generate.py")
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="continue from this folder")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8, help="sequential steps unrolled")
    parser.add_argument("--fade", type=float, default=0.8, help="weight of a step over the one before")
    parser.add_argument("--hard", type=float, default=0.3)
    parser.add_argument("--own-share", type=float, default=0.6)
    parser.add_argument("--matrix-lr", type=float, default=0.01)
    parser.add_argument("--other-lr", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


class Trainer:
    """The head, the frozen target, and one optimizer step over both."""

    def __init__(self, head: Eagle, target: Llama, optimizer: Optimizer, args: argparse.Namespace) -> None:
        self.head, self.target, self.optimizer, self.hard = head, target, optimizer, args.hard
        self.device = head.fc.weight.device
        self.draft_tokens = head.draft_tokens
        fades = torch.tensor([args.fade**step for step in range(args.steps)], device=self.device)
        self.weights = fades / fades.sum()
        self.prepare, self.loss = target_side, step_loss
        if self.device.type == "cuda":
            self.prepare = torch.compile(target_side, dynamic=False)
            self.loss = torch.compile(step_loss, dynamic=False)
            head.read = torch.compile(head.read, dynamic=False)
            head.write = torch.compile(head.write, dynamic=False)

    def step(self, rows: Tensor, factor: float) -> Tensor:
        """Takes one optimizer step and returns the losses and hits of the unrolled steps."""
        head, length = self.head, rows.shape[1]
        where = torch.arange(length, device=self.device)
        figures = []
        with torch.autocast(self.device.type, torch.bfloat16):
            with torch.no_grad():
                side = self.prepare(self.target, rows, self.draft_tokens, head.t2d, self.hard)
            aux, wanted, counted = side
            for index, hidden in enumerate(head.unroll(aux, rows, len(self.weights))):
                shift = index + 1
                mask = counted.roll(-shift, 1) * (where < length - shift)
                figures.append(self.loss(hidden, head.lm_head.weight, wanted.roll(-shift, 1), mask))
        losses, hits = torch.stack(figures).unbind(1)
        (losses * self.weights).sum().backward()
        self.optimizer.step(factor)
        return torch.stack((losses, hits)).detach()


def main() -> None:
    """Trains and saves."""
    args = parse()
    device = set_up(args.seed)
    data = Mixture.read(args.data, args.own, device)
    counts = torch.tensor(json.loads((args.own / "own.json").read_text())["counts"])
    head = Eagle(EAGLE, choose_tokens(counts, EAGLE.draft_vocab))
    if args.start:
        load(head, args.start)
    head = head.to(device)
    optimizer = Optimizer(head, args.matrix_lr, args.other_lr, 0.0)
    trainer = Trainer(head, load_target(args.target, device), optimizer, args)
    for number in (4, 0):
        trainer.step(data.rows_at(number, args.batch, args.own_share), 0.0)  # compiles outside the budget
    done = train(
        Clock(args.seconds),
        Schedule(decay=0.6),
        lambda number, _: data.rows_at(number, args.batch, args.own_share),
        trainer.step,
        lambda: save(head, args.out),
    )
    losses, hits = ([round(value, 4) for value in row] for row in done.latest.tolist())
    coverage = float(counts[head.draft_tokens.cpu()].sum() / counts.sum())
    figures = {"tokens": done.tokens, "steps": done.steps, "seconds": args.seconds}
    report(
        args.out / "log.json",
        **figures,
        draft_vocab_coverage=round(coverage, 5),
        loss_by_step=losses,
        hits_by_step=hits,
    )


if __name__ == "__main__":
    main()
