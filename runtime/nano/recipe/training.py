"""Training of one nano model: synthetic dialogues, assistant tokens only, deterministic given its seed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..dialogues import Author
from ..markup import segments
from . import induction
from .network import SIZES, Network

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENS_PER_STEP = 4096
# (row length, share of the steps, turns generated per row, most tools): short rows see few tools, so that
# every row holds several turns; long rows teach the full context.
_ROW_KINDS = ((512, 0.5, 5, 4), (1024, 0.38, 9, 10), (2048, 0.12, 16, 10))
_NAME_WEIGHT, _FIRST_OF_VALUE_WEIGHT = 3.0, 2.0


@dataclass(frozen=True)
class Recipe:
    """What to train and for how long; ``tokens`` counts positions, padding included."""

    size: str
    tokens: int
    seed: int = 0
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.05


MAIN = Recipe("main", tokens=60_000_000)
DRAFT = Recipe("draft", tokens=28_000_000, seed=1)


class Encoder:
    """Dialogues to token rows with a weight per token: zero where nothing is learned."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """``tokenizer`` is the project's own, already trained."""
        self._tokenizer = tokenizer
        self._call = tokenizer.token_to_id("<tool_call>")
        self._opens_value = np.zeros(tokenizer.get_vocab_size(), dtype=bool)
        for token, index in tokenizer.get_vocab().items():
            self._opens_value[index] = token.endswith('":Ġ"')
        self._arguments = tokenizer.encode("arguments", add_special_tokens=False).ids[0]

    def _weights(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        weights = np.ones(len(ids), dtype=np.float32)
        if ids[0] == self._call:
            after_value_start = np.flatnonzero(self._opens_value[ids[:-1]]) + 1
            weights[after_value_start] = _FIRST_OF_VALUE_WEIGHT
            name_end = int(np.argmax(ids == self._arguments))
            weights[: name_end or 1] = _NAME_WEIGHT
        else:
            weights[0] = _NAME_WEIGHT  # to answer at all, rather than to call, is a choice of the same rank
        return weights

    def row(
        self, author: Author, length: int, turns: int, most_tools: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """One dialogue, cut or padded to ``length`` tokens, and its weights."""
        ids: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float32]] = []
        for part in segments(author.dialogue(turns, most_tools)):
            encoded = np.asarray(
                self._tokenizer.encode(part.text, add_special_tokens=False).ids, dtype=np.int64
            )
            ids.append(encoded)
            weights.append(
                self._weights(encoded) if part.learned else np.zeros(len(encoded), dtype=np.float32)
            )
        row, weight = np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.float32)
        flat_ids, flat_weights = np.concatenate(ids)[:length], np.concatenate(weights)[:length]
        row[: len(flat_ids)], weight[: len(flat_weights)] = flat_ids, flat_weights
        return row, weight


def batches(tokenizer: Tokenizer, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches ``(ids, weights)``, each ``[rows, length + 1]`` with ``rows * length == 4096``."""
    encoder, rng = Encoder(tokenizer), Random(seed)
    author = Author(rng, "train")
    while True:
        length, _, turns, most_tools = rng.choices(_ROW_KINDS, [kind[1] for kind in _ROW_KINDS])[0]
        rows = [encoder.row(author, length + 1, turns, most_tools) for _ in range(_TOKENS_PER_STEP // length)]
        yield (
            torch.from_numpy(np.stack([row for row, _ in rows])),
            torch.from_numpy(np.stack([weight for _, weight in rows])),
        )


class AdamW:
    """AdamW with fp32 master weights for a bf16 network; no decay on vectors."""

    def __init__(self, network: Network, learning_rate: float, weight_decay: float) -> None:
        """Takes the network's current (fp32) parameters as masters."""
        self._parameters = list(network.parameters())
        self.masters = [p.detach().float().clone() for p in self._parameters]
        self._first = [torch.zeros_like(p) for p in self.masters]
        self._second = [torch.zeros_like(p) for p in self.masters]
        self._rate, self._decay, self._step = learning_rate, weight_decay, 0

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Clip the gradient to norm 1 and update at ``factor`` times the learning rate."""
        self._step += 1
        grads = [p.grad.float() for p in self._parameters if p.grad is not None]
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


def train(recipe: Recipe, tokenizer: Tokenizer, checkpoint: Path, report: Callable[[str], None]) -> None:
    """Train one model on one CPU thread; its fp32 weights go to ``checkpoint``, also every ~5 M tokens."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)
    network = Network(SIZES[recipe.size])
    induction.initialise(network)
    optimizer = AdamW(network, recipe.learning_rate, recipe.weight_decay)
    network.to(torch.bfloat16)
    steps = recipe.tokens // _TOKENS_PER_STEP
    source, started, recent = batches(tokenizer, recipe.seed * 1000 + 17), time.monotonic(), []

    def save() -> None:
        names = [name for name, _ in network.named_parameters()]
        torch.save(dict(zip(names, optimizer.masters, strict=True)), checkpoint)

    for step in range(steps):
        ids, weights = next(source)
        targets, target_weights = ids[:, 1:], weights[:, 1:]
        learned = target_weights > 0
        hidden = network.hidden(ids[:, :-1])
        losses = F.cross_entropy(network.logits(hidden[learned]).float(), targets[learned], reduction="none")
        picked = target_weights[learned]
        loss = (losses * picked).sum() / picked.sum()
        loss.backward()
        warmup = min(1.0, (step + 1) / 60)
        optimizer.step(warmup * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / steps))))
        recent.append(float(losses.detach().mean()))
        if (step + 1) % 100 == 0:
            seen, elapsed = (step + 1) * _TOKENS_PER_STEP, time.monotonic() - started
            report(
                f"{recipe.size}: {seen / 1e6:.1f} M tokens of {recipe.tokens / 1e6:.0f}, "
                f"{seen / elapsed:.0f} tokens/s, loss {np.mean(recent[-100:]):.4f}"
            )
        if (step + 1) % 1200 == 0:
            save()
    save()
