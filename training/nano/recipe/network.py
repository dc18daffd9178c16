"""The Qwen2-shaped network in PyTorch, for training only: inference runs the OpenVINO model.

QKV and gate/up are fused matrices.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .recipes import NetworkConfig


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of ``[batch, heads, tokens, head]`` queries over one KV head."""
    shared = [each[:, None].expand(-1, query.shape[1], -1, -1) for each in (key, value)]
    return F.scaled_dot_product_attention(query, *shared, is_causal=True)


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
        """Run over ``[batch, tokens]`` ids.

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
