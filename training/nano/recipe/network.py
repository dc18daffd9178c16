"""The Qwen2-shaped network in PyTorch, for training only: inference runs the exported OpenVINO model.

Differs from a textbook implementation where one CPU thread is slow: QKV and gate/up are fused matrices, and
attention is computed in causal blocks with its own backward pass.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .sizes import NetworkConfig

_BLOCK = 128


class BlockedCausalAttention(torch.autograd.Function):
    """Causal attention over query blocks of 128: never computes a score above the diagonal's block.

    ``query`` is ``[batch, heads, tokens, head]``, ``key`` and ``value`` are ``[batch, tokens, head]`` (one
    KV head); ``tokens`` must be a multiple of 128. Probabilities are kept for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return ``[batch, heads, tokens, head]``."""
        batch, heads, tokens, size = query.shape
        scaled = query * size**-0.5
        out = torch.empty_like(scaled)
        above = torch.full((_BLOCK, _BLOCK), float("-inf"), dtype=query.dtype).triu(1)
        kept = []
        for start in range(0, tokens, _BLOCK):
            end = start + _BLOCK
            rows = scaled[:, :, start:end].reshape(batch, heads * _BLOCK, size)
            scores = torch.bmm(rows, key[:, :end].transpose(1, 2)).view(batch, heads, _BLOCK, end)
            scores[..., start:] += above
            weights = torch.softmax(scores, -1).view(batch, heads * _BLOCK, end)
            kept.append(weights)
            out[:, :, start:end] = torch.bmm(weights, value[:, :end]).view(batch, heads, _BLOCK, size)
        ctx.save_for_backward(scaled, key, value, *kept)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of query, key and value."""
        scaled, key, value, *kept = ctx.saved_tensors
        batch, heads, _, size = scaled.shape
        grad_query, grad_key, grad_value = (
            torch.empty_like(scaled),
            torch.zeros_like(key),
            torch.zeros_like(value),
        )
        for index, weights in enumerate(kept):
            start = index * _BLOCK
            end = start + _BLOCK
            rows = scaled[:, :, start:end].reshape(batch, heads * _BLOCK, size)
            grad_rows = grad[:, :, start:end].reshape(batch, heads * _BLOCK, size)
            grad_value[:, :end] += torch.bmm(weights.transpose(1, 2), grad_rows)
            grad_weights = torch.bmm(grad_rows, value[:, :end].transpose(1, 2))
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            grad_query[:, :, start:end] = torch.bmm(grad_scores, key[:, :end]).view(
                batch, heads, _BLOCK, size
            )
            grad_key[:, :end] += torch.bmm(grad_scores.transpose(1, 2), rows)
        return grad_query * size**-0.5, grad_key, grad_value


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention: in blocks on a CPU, by PyTorch's own kernel on a GPU."""
    if not query.is_cuda:
        blocked: Tensor = BlockedCausalAttention.apply(query, key, value)
        return blocked
    one_for_all = [each[:, None].expand(-1, query.shape[1], -1, -1) for each in (key, value)]
    return F.scaled_dot_product_attention(query, *one_for_all, is_causal=True)


class Layer(nn.Module):
    """One pre-norm transformer layer: attention with QKV biases and RoPE, then a gated MLP."""

    def __init__(self, config: NetworkConfig) -> None:
        """Initialise with variance-preserving random matrices; outputs are scaled down by depth."""
        super().__init__()
        width, inner, head = config.hidden_size, config.intermediate_size, config.head_size
        self.config = config
        depth = math.sqrt(2 * config.layers)
        self.attention_norm = nn.Parameter(torch.ones(width))
        self.mlp_norm = nn.Parameter(torch.ones(width))
        self.qkv = nn.Parameter(torch.randn((config.heads + 2) * head, width) * width**-0.5)
        self.qkv_bias = nn.Parameter(torch.zeros((config.heads + 2) * head))
        self.attention_out = nn.Parameter(torch.randn(width, config.heads * head) * width**-0.5 / depth)
        self.gate_up = nn.Parameter(torch.randn(2 * inner, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(width, inner) * inner**-0.5 / depth)

    def queries_keys_values(
        self, hidden: Tensor, cosine: Tensor, sine: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``[batch, heads, tokens, head]`` queries, and ``[batch, tokens, head]`` keys and values."""
        config = self.config
        batch, tokens, width = hidden.shape
        head, heads = config.head_size, config.heads
        normed = F.rms_norm(hidden, (width,), self.attention_norm, config.norm_epsilon)
        mixed = F.linear(normed, self.qkv, self.qkv_bias).view(batch, tokens, heads + 2, head).transpose(1, 2)
        rotated = mixed[:, : heads + 1]
        low, high = rotated[..., : head // 2], rotated[..., head // 2 :]
        rotated = torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)
        return rotated[:, :heads], rotated[:, heads], mixed[:, heads + 1]

    def forward(self, hidden: Tensor, projected: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """``hidden`` is ``[batch, tokens, width]``, ``projected`` its queries, keys and values."""
        config = self.config
        batch, tokens, width = hidden.shape
        head, heads = config.head_size, config.heads
        attended = _attend(*projected)
        hidden = hidden + F.linear(
            attended.transpose(1, 2).reshape(batch, tokens, heads * head), self.attention_out
        )
        normed = F.rms_norm(hidden, (width,), self.mlp_norm, config.norm_epsilon)
        gate, up = F.linear(normed, self.gate_up).split(config.intermediate_size, -1)
        return hidden + F.linear(F.silu(gate) * up, self.down)


class Network(nn.Module):
    """The whole language model."""

    def __init__(self, config: NetworkConfig) -> None:
        """Initialise at random; :mod:`.induction` says what comes next."""
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.randn(config.vocabulary_size, config.hidden_size) * 0.05)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.final_norm = nn.Parameter(torch.ones(config.hidden_size))
        half = config.head_size // 2
        self.inverse_frequencies = config.rope_theta ** (-torch.arange(half).float() / half)
        angles = torch.arange(config.context_length).float()[:, None] * self.inverse_frequencies[None]
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor, pointers: Tensor) -> tuple[Tensor, Tensor]:
        """Run over ``[batch, tokens]`` ids (tokens: a multiple of 128).

        Returns:
            The final hidden states ``[batch, tokens, width]``, and for each of ``pointers``, ``[n, 3]``: row,
            head and position, how strongly that head of the last layer looks from there at every position:
            ``[n, tokens]`` attention logits, masked to the past.
        """
        dtype, length = self.embedding.dtype, tokens.shape[1]
        cosine, sine = self.cosine[:length].to(dtype), self.sine[:length].to(dtype)
        hidden = F.embedding(tokens, self.embedding)
        for layer in self.layers:
            projected = layer.queries_keys_values(hidden, cosine, sine)
            hidden = layer(hidden, projected)
        queries, keys, _ = projected
        rows, heads, positions = pointers.unbind(1)
        scores = torch.einsum("nd,ntd->nt", queries[rows, heads, positions], keys[rows])
        scores = scores.float() * self.config.head_size**-0.5
        later = torch.arange(length, device=tokens.device)[None] > positions[:, None]
        final = F.rms_norm(hidden, (self.config.hidden_size,), self.final_norm, self.config.norm_epsilon)
        return final, scores.masked_fill(later, float("-inf"))

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits ``[…, vocabulary]`` of hidden states ``[…, width]``."""
        return F.linear(hidden, self.embedding)
