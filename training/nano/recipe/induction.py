"""Induction initialisation: copying is put in place by hand before training starts.

A copying circuit needs two layers to agree (one looks at the previous token, a later one looks for the
same token's successor), which a small model finds late or never. Both parts can be written down:

- layer 0: rotary embeddings turn a constant query and key into a function of distance. With the key bias
  on the fast frequencies at angle 0 and head *h*'s query bias at angle *-(h + 1)*, head *h* attends to the
  token *h + 1* positions back. Head 0 copies that token's embedding into a subspace of the residual stream.
- layers 1 and 2: keys read that subspace ("what came before me"), queries read the embedding ("what am
  I"), both on the slow frequencies where distance does not matter, so that a token attends to the
  successors of its earlier occurrences; the value passes their embedding on.

The last layer's last head looks up a tool's name by the tool's description. :func:`_look_up` lets it compare
the contexts before two positions, training supervises its attention (:func:`.training.pointer_loss`), and
afterwards :func:`pass_words_on` restores its output projection.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as functional
from torch import Tensor

from .network import Layer, Network

_FAST, _SLOW = 0.02, 0.004  # radians a token: turning quickly with distance, hardly turning over a context
_POSITION_SHARPNESS = 6.0
_MATCH_SHARPNESS = 1.95
_EMBEDDING_SCALE = 0.05
_WINDOWS = ((8, 0.05, 0.4), (20, _FAST, 0.2))
"""How many tokens back a window is centred, and between which frequencies its shape is made."""
_WINDOW_SHARPNESS = 9.0
_LOOK_SHARPNESS = 2.0
_RIDGE = 1e-3


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

    _look_up(network)


def _look_up(network: Network) -> None:
    """Let the last head of the last layer compare the contexts before two positions.

    The layer before it averages the words of a window behind each position: of a near one, which at a tool's
    name holds its description, and of a far one, which at a call holds the request (one and the same if there
    are only two heads). The last layer's head matches the far window of a query with the near ones of keys.
    """
    config = network.config
    width, heads, head = config.hidden_size, config.heads, config.head_size
    half, frequencies = head // 2, network.inverse_frequencies
    gather, match = network.layers[-2], network.layers[-1]
    key_rows, value_rows = slice(heads * head, (heads + 1) * head), slice((heads + 1) * head, None)
    turning = frequencies > _FAST
    key_bias = torch.zeros(head)
    key_bias[:half][turning] = _POSITION_SHARPNESS
    gather.qkv_bias[key_rows] = key_bias
    gather.qkv[value_rows] = _orthonormal_rows(head, width)
    for rows in (slice(index * head, (index + 1) * head) for index in range(heads)):
        block = gather.qkv[rows]
        block[:half][turning] = 0  # or a head that matches words would look at distances, too
        block[half:][turning] = 0
    spaces = _orthonormal_rows(width, width)
    windows = _WINDOWS if heads > 2 else _WINDOWS[:1] * 2
    places: list[Tensor] = []
    for index, (centre, slowest, fastest) in enumerate(dict.fromkeys(windows), start=1):
        chosen = (frequencies > slowest) & (frequencies < fastest)
        strength = _WINDOW_SHARPNESS * math.sqrt(head) / (_POSITION_SHARPNESS * int(chosen.sum()))
        bias = torch.zeros(head)
        bias[:half][chosen] = strength * torch.cos(-centre * frequencies)[chosen]
        bias[half:][chosen] = strength * torch.sin(-centre * frequencies)[chosen]
        rows = slice(index * head, (index + 1) * head)
        gather.qkv_bias[rows] = bias
        gather.qkv[rows] *= 0.1
        places.append(spaces[(index - 1) * head : index * head])
        gather.attention_out[:, rows] = places[-1].T * _EMBEDDING_SCALE * math.sqrt(width / head)
    near, far = places[0], places[-1]

    slow = torch.nonzero(frequencies < _SLOW)[:, 0]
    matching = torch.cat((slow, slow + half))
    mixed = _orthonormal_rows(len(matching), head)
    match.qkv[key_rows] *= 0.1
    match.qkv[heads * head + matching] = mixed @ near * _LOOK_SHARPNESS
    match.qkv[(heads - 1) * head : heads * head] *= 0.1
    match.qkv[(heads - 1) * head + matching] = mixed @ far * _LOOK_SHARPNESS
    passed = _orthonormal_rows(head, width)
    match.qkv[value_rows] = passed
    match.attention_out[:, -head:] = passed.T * _EMBEDDING_SCALE * 4


@torch.no_grad()
def pass_words_on(network: Network, tokens: Tensor, seen: Tensor) -> None:
    """Let the last head of the last layer output the word it attends to; reset the layer's other heads.

    While the head learns where to attend, its output is noise and training drives it to zero. Deep in the
    network a word's embedding is one thing of many in its state, so find it by regression: the best map of
    one head's rank from the states that enter the last layer where ``seen`` is true, a mask over ``tokens``
    (both ``[batch, tokens]``), to the embeddings of the words there.
    """
    config = network.config
    width, heads, head = config.hidden_size, config.heads, config.head_size
    cosine, sine = network.cosine[: tokens.shape[1]], network.sine[: tokens.shape[1]]
    hidden = functional.embedding(tokens, network.embedding)
    for layer in network.layers[:-1]:
        hidden = layer(hidden, layer.queries_keys_values(hidden, cosine, sine))
    last = network.layers[-1]
    hidden, words = hidden[seen], tokens[seen]
    states = functional.rms_norm(hidden, (width,), last.attention_norm, config.norm_epsilon)
    usual = states.mean(0)
    states = states - usual
    meanings = network.embedding[words] - network.embedding[words.unique()].mean(0)
    ridge = _RIDGE * len(words) * torch.eye(width)
    best = torch.linalg.solve(states.T @ states + ridge, states.T @ functional.normalize(meanings, dim=1))
    found = states @ best
    directions = torch.linalg.svd(found, full_matrices=False)[2][:head]
    value_rows = slice((heads + 1) * head, None)
    last.qkv[value_rows] = directions @ best.T
    last.qkv_bias[value_rows] = -directions @ best.T @ usual
    last.attention_out.zero_()
    last.attention_out[:, -head:] = directions.T * (hidden.norm(dim=1).mean() / found.norm(dim=1).mean())
