"""The optimizer of all training processes."""

from __future__ import annotations

import math

import torch
from torch import distributed

from .network import Network


class AdamW:
    """AdamW with fp32 master weights for a bf16 network; no decay on vectors."""

    def __init__(self, network: Network, learning_rate: float, weight_decay: float = 0.05) -> None:
        """Takes the network's current (fp32) parameters as masters."""
        self._parameters = list(network.parameters())
        self.masters = [p.detach().float().clone() for p in self._parameters]
        self._first = [torch.zeros_like(p) for p in self.masters]
        self._second = [torch.zeros_like(p) for p in self.masters]
        self._rate, self._decay, self._step = learning_rate, weight_decay, 0

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Average over the processes, clip to norm 1, and update at ``factor`` times the learning rate."""
        self._step += 1
        grads = [p.grad.float() for p in self._parameters if p.grad is not None]
        if distributed.is_initialized():
            flat = torch.cat([g.flatten() for g in grads])
            distributed.all_reduce(flat)
            flat /= distributed.get_world_size()
            grads = [
                part.view_as(g) for part, g in zip(flat.split([g.numel() for g in grads]), grads, strict=True)
            ]
        norm = math.sqrt(sum(float(g.square().sum()) for g in grads))
        clip = min(1.0, 1.0 / (norm + 1e-6))
        rate = self._rate * factor
        first_bias, second_bias = 1 - 0.9**self._step, 1 - 0.98**self._step
        for parameter, master, first, second, grad in zip(
            self._parameters, self.masters, self._first, self._second, grads, strict=True
        ):
            grad.mul_(clip)
            first.lerp_(grad, 0.1)
            second.lerp_(grad.square(), 0.02)
            if master.ndim == 2:
                master.mul_(1 - rate * self._decay)
            master.addcdiv_(first, (second / second_bias).sqrt_().add_(1e-8), value=-rate / first_bias)
            parameter.copy_(master)
            parameter.grad = None
