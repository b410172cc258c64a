"""What the training scripts share: token batches, the optimizer, the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Schedule:
    """Learning-rate factor over the share of the wall-clock budget that is spent."""

    warmup: float = 0.02
    decay: float = 0.5

    def factor(self, progress: float) -> float:
        """Warm up, hold, then fall linearly to nearly zero."""
        rise = min(1.0, (progress + 1e-3) / self.warmup) if self.warmup else 1.0
        fall = min(1.0, (1.0 - progress) / self.decay)
        return max(0.0, min(rise, fall))


class Clock:
    """A wall-clock budget; it starts at the first ``progress`` call, after compilation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started: float | None = None

    def progress(self) -> float:
        """Returns the share of the budget that is spent."""
        if self.started is None:
            self.started = time.monotonic()
        return (time.monotonic() - self.started) / self.seconds


@dataclass(frozen=True)
class Trained:
    """What a training run did."""

    steps: int
    tokens: int
    latest: Tensor


def train(
    clock: Clock,
    schedule: Schedule,
    rows_at: Callable[[int, float], Tensor],
    step: Callable[[Tensor, float], Tensor],
    save: Callable[[], None],
) -> Trained:
    """Takes steps until the budget is spent; saves every minute and at the end.

    Args:
        clock: The budget.
        schedule: Learning-rate factors.
        rows_at: Draws the rows of a step, from its number and the progress.
        step: Takes one step at a learning-rate factor and returns figures.
        save: Saves the model.
    """
    steps, tokens, saved = 0, 0, time.monotonic()
    latest = torch.zeros(())
    while (progress := clock.progress()) < 1:
        rows = rows_at(steps, progress)
        latest = step(rows, schedule.factor(progress))
        steps, tokens = steps + 1, tokens + rows.numel()
        if steps % 100 == 1:
            shown = " ".join(f"{value:.4f}" for value in latest.flatten().tolist())
            print(f"step {steps} tokens {tokens / 1e6:.0f}M figures {shown}", flush=True)
        if time.monotonic() - saved > 60:
            save()
            saved = time.monotonic()
    save()
    return Trained(steps, tokens, latest)


def set_up(seed: int) -> str:
    """Seeds, picks fast matrix modes and returns the device."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    return "cuda" if torch.cuda.is_available() else "cpu"


def read_stream(path: Path, device: str) -> Tensor:
    """Reads a uint16 token stream to the device."""
    tokens = torch.from_numpy(np.fromfile(path, dtype="<u2").astype(np.int32))
    return tokens.to(device)


def sample_windows(stream: Tensor, batch: int, length: int) -> Tensor:
    """Draws random windows of a token stream."""
    starts = torch.randint(len(stream) - length, (batch, 1), device=stream.device)
    return stream[starts + torch.arange(length, device=stream.device)].long()


def fixed_windows(stream: Tensor, batch: int, length: int) -> Tensor:
    """Returns evenly spaced windows of a token stream."""
    starts = torch.linspace(0, len(stream) - length - 1, batch, device=stream.device).long()
    return stream[starts[:, None] + torch.arange(length, device=stream.device)].long()


@dataclass(frozen=True)
class Mixture:
    """Corpus text and the target's own text."""

    stream: Tensor
    own: Tensor

    @classmethod
    def read(cls, data: Path, own: Path, device: str) -> Mixture:
        """Reads ``train.bin`` and ``own.bin``."""
        length = json.loads((own / "own.json").read_text())["length"]
        return cls(
            read_stream(data / "train.bin", device), read_stream(own / "own.bin", device).view(-1, length)
        )

    def batch(self, rows: int, own_share: float) -> Tensor:
        """Draws rows, a share of them the target's own text."""
        count = int(rows * own_share)
        picked = torch.randint(len(self.own), (count,), device=self.own.device)
        corpus = sample_windows(self.stream, rows - count, self.own.shape[1])
        return torch.cat((self.own[picked].long(), corpus))

    def rows_at(self, step: int, rows: int, own_share: float) -> Tensor:
        """Draws the rows of a step; every fifth step has long ones."""
        return self.long_batch(rows) if step % 5 == 4 else self.batch(rows, own_share)

    def long_batch(self, rows: int) -> Tensor:
        """Draws corpus rows of twice the usual length, half as many."""
        return sample_windows(self.stream, rows // 2, 2 * self.own.shape[1])


def sharpened(logits: Tensor, hard: float) -> Tensor:
    """Mixes the softmax with its most likely token, which is what greedy drafts must hit."""
    soft = logits.float().softmax(-1)
    return soft.mul(1 - hard).scatter_add(
        -1, logits.argmax(-1, keepdim=True), torch.full_like(soft[..., :1], hard)
    )


def orthogonalize(g: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration towards the nearest semi-orthogonal matrices, batched."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Optimizer:
    """Muon for the layers' matrices, AdamW for embeddings, heads and norms."""

    def __init__(self, model: nn.Module, matrix_lr: float, other_lr: float, decay: float) -> None:
        self.matrix_lr, self.other_lr, self.decay = matrix_lr, other_lr, decay
        groups: dict[tuple[int, ...], list[nn.Parameter]] = {}
        others = []
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "embed" not in name and "lm_head" not in name:
                groups.setdefault(tuple(parameter.shape), []).append(parameter)
            else:
                others.append(parameter)
        self.groups = list(groups.values())
        self.momenta = [torch.zeros_like(torch.stack(group)) for group in self.groups]
        self.adam = torch.optim.AdamW(
            others, lr=other_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=others[0].is_cuda
        )
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Takes a step at ``factor`` times the peak rates and clears the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        for group in self.adam.param_groups:
            group["lr"] = factor * self.other_lr
        self.adam.step()
        for group_parameters, momentum in zip(self.groups, self.momenta, strict=True):
            gradient = torch.stack([p.grad for p in group_parameters if p.grad is not None])
            momentum.lerp_(gradient, 0.05)
            update = orthogonalize(gradient.lerp(momentum, 0.95)).float()
            scale = max(1.0, update.shape[-2] / update.shape[-1]) ** 0.5
            lr = factor * self.matrix_lr
            torch._foreach_mul_(group_parameters, 1 - lr * self.decay)
            torch._foreach_add_(group_parameters, list(update.unbind()), alpha=-lr * scale)
        for parameter in self.parameters:
            parameter.grad = None


def report(path: Path, **figures: object) -> None:
    """Prints figures and keeps them as JSON."""
    print(json.dumps(figures), flush=True)
    path.write_text(json.dumps(figures, indent=1) + "\n")
