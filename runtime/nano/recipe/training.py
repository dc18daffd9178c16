"""Training of one nano model: synthetic dialogues, assistant tokens only, deterministic given its seed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import distributed
from torch.multiprocessing import spawn

from ..dialogues import Author, Mix
from ..markup import MARKUP_TOKENS, SPECIAL_TOKENS, segments
from . import induction
from .network import SIZES, Network
from .tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENS_PER_STEP = 4096
_WARMUP_STEPS = 60
_SAVE_EVERY = 600
_FIRST_TEXT_TOKEN = len(SPECIAL_TOKENS) + len(MARKUP_TOKENS)
_NAME_WEIGHT, _FIRST_OF_VALUE_WEIGHT = 3.0, 2.0


class RowKind(NamedTuple):
    """One kind of training row: a dialogue cut or padded to ``length`` tokens."""

    length: int
    share: float
    """Of the steps."""
    turns: int
    most_tools: tuple[int, ...]
    """One of these bounds the number of tools."""
    calls_only: bool = False
    """:attr:`Dialogue.calls_only` of its dialogues."""


@dataclass(frozen=True)
class Phase:
    """A stretch of training. It starts with fresh optimizer moments and a warm-up."""

    tokens: int
    """Positions to train on, padding included."""
    horizon: int
    """Where the cosine of the learning rate ends, in tokens; past ``tokens`` if the phase stops early."""
    learning_rate: float
    rows: tuple[RowKind, ...]
    mix: Mix = field(default_factory=Mix)
    blends: float = 0.0
    """:attr:`Vocabulary.blends` of its dialogues."""
    copy_rows: float = 0.0
    """Share of rows that repeat stretches of random tokens instead of holding a dialogue."""
    unknown_words: float = 0.0
    """:class:`Wording`'s share of requests with an unknown word in them."""
    processes: int = 1
    """Each computes its share of every step's rows; their gradients are averaged."""


@dataclass(frozen=True)
class Recipe:
    """What to train: a size, a seed, and phases one after the other."""

    size: str
    seed: int
    phases: tuple[Phase, ...]


_ROWS = (
    # Many requests to tools of unknown names, each called about once: what teaches to choose by description.
    RowKind(1024, 0.45, 14, (10,), calls_only=True),
    # Few turns, with results and answers. More of them over the same tools would teach to repeat calls.
    RowKind(512, 0.30, 2, (3, 6, 10, 10)),
    RowKind(1024, 0.20, 4, (6, 10)),
    RowKind(2048, 0.05, 12, (10,)),
)


def _phase(tokens: int) -> Phase:
    return Phase(
        tokens,
        horizon=tokens,
        learning_rate=2.5e-3,
        rows=_ROWS,
        mix=Mix(small_talk=0.05, unserved=0.12),
        blends=0.6,
        copy_rows=0.06,
        unknown_words=0.2,
        processes=2,
    )


MAIN = Recipe("main", seed=0, phases=(_phase(64_000_000),))
DRAFT = Recipe("draft", seed=1, phases=(_phase(16_000_000),))


class Encoder:
    """Dialogues to token rows with a weight per token: zero where nothing is learned."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """``tokenizer`` is the project's own, already trained."""
        self._tokenizer = tokenizer
        self._call = tokenizer.token_to_id("<tool_call>")
        self._size = tokenizer.get_vocab_size()
        self._opens_value = np.zeros(self._size, dtype=bool)
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
        self, author: Author, kind: RowKind, mix: Mix, most_tools: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """One dialogue, cut or padded to ``kind.length + 1`` tokens, and its weights."""
        ids: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float32]] = []
        for part in segments(author.dialogue(kind.turns, most_tools, mix, calls_only=kind.calls_only)):
            encoded = np.asarray(
                self._tokenizer.encode(part.text, add_special_tokens=False).ids, dtype=np.int64
            )
            ids.append(encoded)
            weights.append(
                self._weights(encoded) if part.learned else np.zeros(len(encoded), dtype=np.float32)
            )
        length = kind.length + 1
        row, weight = np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.float32)
        flat_ids, flat_weights = np.concatenate(ids)[:length], np.concatenate(weights)[:length]
        row[: len(flat_ids)], weight[: len(flat_weights)] = flat_ids, flat_weights
        return row, weight

    def copy_row(self, rng: Random, length: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Random tokens of which stretches come again: whatever a word is made of, it can be copied."""
        row = np.asarray(
            [rng.randrange(_FIRST_TEXT_TOKEN, self._size) for _ in range(length)], dtype=np.int64
        )
        weight = np.zeros(length, dtype=np.float32)
        start = 0
        while True:
            stretch, gap = rng.randint(4, 40), rng.randint(0, 60)
            again = start + stretch + gap
            if again + stretch > length:
                return row, weight
            row[again : again + stretch] = row[start : start + stretch]
            weight[again + 2 : again + stretch] = 1.0  # the first two tokens say what is being repeated
            start = again + stretch


def batches(
    tokenizer: Tokenizer, phase: Phase, seed: int, rank: int = 0
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches ``(ids, weights)`` for one process, each ``[rows, length + 1]``.

    All processes together compute ``rows * length == 4096`` tokens a step, in rows of the same kind.
    """
    encoder = Encoder(tokenizer)
    kinds = Random(seed)
    rng = kinds if phase.processes == 1 else Random(seed + 1 + rank)
    author = Author(rng, "train", blends=phase.blends, unknown_words=phase.unknown_words)
    while True:
        kind = kinds.choices(phase.rows, [kind.share for kind in phase.rows])[0]
        rows = []
        for _ in range(_TOKENS_PER_STEP // kind.length // phase.processes):
            if phase.copy_rows and rng.random() < phase.copy_rows:
                rows.append(encoder.copy_row(rng, kind.length + 1))
                continue
            most_tools = kind.most_tools[0] if len(kind.most_tools) == 1 else rng.choice(kind.most_tools)
            rows.append(encoder.row(author, kind, phase.mix, most_tools))
        yield (
            torch.from_numpy(np.stack([row for row, _ in rows])),
            torch.from_numpy(np.stack([weight for _, weight in rows])),
        )


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


Report = Callable[[str], None]


def train(recipe: Recipe, tokenizer: Path, checkpoint: Path, report: Report) -> None:
    """Train one model from scratch; its fp32 weights go to ``checkpoint``, also every ~2.5 M tokens."""
    torch.set_num_threads(1)  # the initialisation, too, rounds differently on two
    torch.manual_seed(recipe.seed)
    network = Network(SIZES[recipe.size])
    induction.initialise(network)
    torch.save(dict(network.named_parameters()), checkpoint)
    for number in range(len(recipe.phases)):
        train_phase(recipe, number, tokenizer, checkpoint, report)


def train_phase(recipe: Recipe, number: int, tokenizer: Path, checkpoint: Path, report: Report) -> None:
    """Go on from ``checkpoint`` with one phase of the recipe, in as many processes as it asks for."""
    processes = recipe.phases[number].processes
    if processes == 1:
        _run(0, recipe, number, tokenizer, checkpoint, report)
        return
    with TemporaryDirectory() as meeting:
        arguments = (recipe, number, tokenizer, checkpoint, report, Path(meeting, "rendezvous"))
        spawn(_run, arguments, nprocs=processes)


def _run(
    rank: int,
    recipe: Recipe,
    number: int,
    tokenizer: Path,
    checkpoint: Path,
    report: Report,
    rendezvous: Path | None = None,
) -> None:
    """One process of a phase, on one thread."""
    torch.set_num_threads(1)
    phase = recipe.phases[number]
    if rendezvous is not None:
        distributed.init_process_group(
            "gloo", init_method=rendezvous.absolute().as_uri(), rank=rank, world_size=phase.processes
        )
    network = Network(SIZES[recipe.size])
    network.load_state_dict(torch.load(checkpoint))
    optimizer = AdamW(network, phase.learning_rate)
    network.to(torch.bfloat16)
    source = batches(load_tokenizer(tokenizer), phase, recipe.seed * 1000 + 17 + 100 * number, rank)
    steps, horizon = phase.tokens // _TOKENS_PER_STEP, phase.horizon // _TOKENS_PER_STEP
    started = time.monotonic()
    recent: list[float] = []

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
        warmup = min(1.0, (step + 1) / _WARMUP_STEPS)
        optimizer.step(warmup * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / horizon))))
        recent.append(float(losses.detach().mean()))
        if rank == 0 and (step + 1) % 100 == 0:
            seen, elapsed = (step + 1) * _TOKENS_PER_STEP, time.monotonic() - started
            report(
                f"{recipe.size}, phase {number + 1}: {seen / 1e6:.1f} M tokens of {phase.tokens / 1e6:.0f}, "
                f"{seen / elapsed:.0f} tokens/s, loss {np.mean(recent[-100:]):.4f}"
            )
        if rank == 0 and ((step + 1) % _SAVE_EVERY == 0 or step + 1 == steps):
            save()
    if rendezvous is not None:
        distributed.destroy_process_group()
