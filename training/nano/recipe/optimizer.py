"""The optimizer of training."""

from __future__ import annotations

import torch

from .network import Network


class AdamW:
    """AdamW with fp32 master weights for a bf16 network; no decay on vectors."""

    def __init__(self, network: Network, learning_rate: float, weight_decay: float = 0.05) -> None:
        """Takes the network's current (fp32) parameters as masters."""
        self._names = [name for name, _ in network.named_parameters()]
        self._parameters = list(network.parameters())
        self.masters = [p.detach().float().clone() for p in self._parameters]
        self._rate = learning_rate
        decayed = [master for master in self.masters if master.ndim == 2]
        others = [master for master in self.masters if master.ndim != 2]
        groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
        self._inner = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98), eps=1e-8)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Clip the gradients to norm 1, and update at ``factor`` times the learning rate."""
        for parameter, master in zip(self._parameters, self.masters, strict=True):
            master.grad = parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        for group in self._inner.param_groups:
            group["lr"] = self._rate * factor
        self._inner.step()
        for parameter, master in zip(self._parameters, self.masters, strict=True):
            parameter.copy_(master)

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: master.cpu() for name, master in zip(self._names, self.masters, strict=True)}
