"""Attention of unrolled draft chains: a causal part, and a few entries of each chain's own.

Position i of the query attends causally to the first keys (0..i) and to entry i of
every later key tensor, under one softmax. The causal part runs in the flash kernel;
its result is merged with the rest through the log-sum-exp. The kernel's backward
pass, given the merged output and log-sum-exp, yields the right gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
flash = aten._scaled_dot_product_flash_attention  # noqa: SLF001 - the public form hides the log-sum-exp
flash_back = aten._scaled_dot_product_flash_attention_backward  # noqa: SLF001
cpu_flash = aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
cpu_flash_back = aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001


def attend(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Attends; all tensors are [batch, heads, length, head_dim]."""
    if q.is_cuda and q.dtype == torch.bfloat16:
        return fused(q, keys, values)
    return dense(q, keys, values)


def dense(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """The plain form."""
    length = q.shape[2]
    q = q * q.shape[-1] ** -0.5
    future = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ keys[0].transpose(-1, -2)).masked_fill(future, float("-inf"))
    own = [(q * k).sum(-1, keepdim=True) for k in keys[1:]]
    weights = torch.cat((scores, *own), -1).softmax(-1)
    y = weights[..., :length] @ values[0]
    for index, v in enumerate(values[1:]):
        y = y + weights[..., length + index, None] * v
    return y


def fused(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """The form for training on a GPU."""
    own_keys = torch.stack(keys[1:]) if len(keys) > 1 else q.new_zeros(0, *q.shape)
    own_values = torch.stack(values[1:]) if len(keys) > 1 else own_keys
    result: Tensor = MergedAttention.apply(q, keys[0], values[0], own_keys, own_values)
    return result


class MergedAttention(torch.autograd.Function):
    """Flash attention merged with the chain's own entries [steps, batch, heads, length, dim]."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, own_k: Tensor, own_v: Tensor) -> Tensor:
        """Returns the merged output."""
        if q.is_cuda:
            out, lse, *ctx.rest = flash(q, k, v, 0.0, True)
        else:
            out, lse = cpu_flash(q, k, v, 0.0, True)
        scores = (q * own_k).sum(-1, dtype=torch.float32) * q.shape[-1] ** -0.5
        total = torch.cat((lse[None].float(), scores)).logsumexp(0)
        merged = out * (lse - total).exp()[..., None]
        merged = merged + ((scores - total).exp()[..., None] * own_v).sum(0)
        merged = merged.to(q.dtype)
        ctx.save_for_backward(q, k, v, own_k, own_v, merged, total, scores)
        return merged

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """Returns the gradients of all five inputs."""
        q, k, v, own_k, own_v, merged, total, scores = ctx.saved_tensors
        grad = grads[0].contiguous()
        if q.is_cuda:
            cum_q, cum_k, max_q, max_k, seed, offset, _ = ctx.rest
            dq, dk, dv = flash_back(
                grad, q, k, v, merged, total, cum_q, cum_k, max_q, max_k, 0.0, True, seed, offset
            )
        else:
            dq, dk, dv = cpu_flash_back(grad, q, k, v, merged, total, 0.0, True)
        weights = (scores - total).exp()
        inner = (grad * own_v).sum(-1, dtype=torch.float32) - (grad * merged).sum(-1, dtype=torch.float32)
        slopes = (weights * inner * q.shape[-1] ** -0.5)[..., None].to(q.dtype)
        dq = dq + (slopes * own_k).sum(0)
        return dq, dk, dv, slopes * q, weights[..., None].to(q.dtype) * grad
