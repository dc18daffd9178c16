"""Induction initialisation: copying is put in place by hand before training starts.

A copying circuit needs two layers to agree (one looks at the previous token, a later one looks for the
same token's successor), which a small model finds late or never. Both parts can be written down:

- layer 0: rotary embeddings turn a constant query and key into a function of distance. With the key bias
  on the fast frequencies at angle 0 and head *h*'s query bias at angle *-(h + 1)*, head *h* attends to the
  token *h + 1* positions back. Head 0 copies that token's embedding into a subspace of the residual stream.
- layers 1 and 2: keys read that subspace ("what came before me"), queries read the embedding ("what am
  I"), both on the slow frequencies where distance does not matter, so that a token attends to the
  successors of its earlier occurrences; the value passes their embedding on.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .network import Layer, Network

_FAST, _SLOW = 0.02, 0.004  # radians a token: turning quickly with distance, hardly turning over a context
_POSITION_SHARPNESS = 6.0
_MATCH_SHARPNESS = 1.95
_EMBEDDING_SCALE = 0.05


def _orthonormal_rows(count: int, width: int) -> Tensor:
    return torch.linalg.qr(torch.randn(width, count))[0].T


@torch.no_grad()
def initialise(network: Network) -> None:
    """Write the copying circuit into a freshly created network; uses torch's global random state."""
    config = network.config
    width, heads, head = config.hidden_size, config.heads, config.head_size
    half, frequencies = head // 2, network.inverse_frequencies
    fast = frequencies > _FAST
    slow = torch.nonzero(frequencies < _SLOW)[:, 0]
    matching = torch.cat((slow, slow + half))  # the slow dimensions of one head
    read, written = _orthonormal_rows(len(matching), width), _orthonormal_rows(len(matching), width)
    layers: list[Layer] = list(network.layers)
    for layer in layers:
        layer.attention_out.mul_(0.02)
        layer.down.mul_(0.02)

    first = layers[0]
    key_rows = slice(heads * head, (heads + 1) * head)
    bias = torch.zeros(head)
    bias[:half][fast] = _POSITION_SHARPNESS
    first.qkv_bias[key_rows] = bias
    first.qkv[key_rows] *= 0.1
    for index in range(heads):
        angle = -(index + 1) * frequencies
        bias = torch.zeros(head)
        bias[:half][fast] = _POSITION_SHARPNESS * torch.cos(angle)[fast]
        bias[half:][fast] = _POSITION_SHARPNESS * torch.sin(angle)[fast]
        rows = slice(index * head, (index + 1) * head)
        first.qkv_bias[rows] = bias
        first.qkv[rows] *= 0.1
    value_row = (heads + 1) * head
    first.qkv[value_row : value_row + len(matching)] = read
    first.attention_out[:, : len(matching)] = written.T * _EMBEDDING_SCALE * math.sqrt(width / len(matching))

    for layer in layers[1:3]:
        layer.qkv[key_rows] *= 0.3
        layer.qkv[heads * head + matching] = written * _MATCH_SHARPNESS
        layer.qkv[:head] *= 0.3
        layer.qkv[matching] = read * _MATCH_SHARPNESS
        passed = _orthonormal_rows(head, width)
        layer.qkv[value_row : value_row + head] = passed
        layer.attention_out[:, :head] = passed.T * _EMBEDDING_SCALE * 4
