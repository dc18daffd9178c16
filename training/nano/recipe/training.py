"""Training of one nano model: synthetic dialogues, assistant tokens only; deterministic on a CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ..markup import NAME_OPENS
from . import induction
from .network import Network
from .recipes import NAMES_ROWS, Phase, Recipe
from .rows import NEXT_WORD_HEAD, WORD_HEAD, Batch, batches, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WARMUP_STEPS = 60
_SAVE_EVERY = 600
_REPORT_EVERY = 100
_POINTER_WEIGHT = 0.5
_NAMES_BATCHES = 60
_NAMES_TOKENS = 4096
_WINDOW = 128
_AHEAD = 4
Report = Callable[[str], None]


def train(
    recipe: Recipe, tokenizer: Path, checkpoint: Path, report: Report, device: str = "cpu", workers: int = 0
) -> None:
    """Train one model from scratch; its fp32 weights go to ``checkpoint``, also every 600 steps.

    ``workers`` processes write the dialogues, or this one does for 0. Then the weights are the same for the
    same recipe on a CPU.
    """
    torch.set_num_threads(1)  # the initialisation rounds differently on two
    torch.manual_seed(recipe.seed)
    network = Network(recipe.network)
    induction.initialise(network)
    for number, phase in enumerate(recipe.phases):
        if phase.pass_words_on:
            _pass_words_on(network, load_tokenizer(tokenizer), phase, recipe.seed * 1000 + 7 + number)
        network = _train_phase(recipe, number, network, tokenizer, checkpoint, report, device, workers)


def _train_phase(
    recipe: Recipe,
    number: int,
    network: Network,
    tokenizer: Path,
    checkpoint: Path,
    report: Report,
    device: str,
    workers: int,
) -> Network:
    """Train ``network`` in one phase of the recipe, in bf16; return it with its fp32 weights."""
    phase = recipe.phases[number]
    network.to(device)
    optimizer = AdamW(network, phase.learning_rate)
    network.to(torch.bfloat16)
    seed = recipe.seed * 1000 + 17 + 100 * number
    source = feed(tokenizer, phase, seed, workers, torch.device(device))
    steps, horizon = phase.tokens // phase.tokens_per_step, phase.horizon // phase.tokens_per_step
    began = [master.clone() for master in optimizer.masters]
    started = time.monotonic()
    recent: list[torch.Tensor] = []

    for step in range(steps):
        loss, losses, pointed = losses_of(network, next(source))
        loss.backward()
        warmup = min(1.0, (step + 1) / _WARMUP_STEPS)
        optimizer.step(warmup * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / horizon))))
        recent.append(torch.cat((losses.detach().mean()[None], pointed.detach())))
        if (step + 1) % _REPORT_EVERY == 0:
            seen, elapsed = (step + 1) * phase.tokens_per_step, time.monotonic() - started
            text, word, next_word = torch.stack(recent).mean(0).tolist()
            recent.clear()
            report(
                f"phase {number + 1}: {seen / 1e6:.1f} M tokens of {phase.tokens / 1e6:.0f}, "
                f"{seen / elapsed:.0f} tokens/s, loss {text:.4f}, pointers {word:.4f} and {next_word:.4f}"
            )
        if (step + 1) % _SAVE_EVERY == 0:
            torch.save(optimizer.weights(), checkpoint)
    if phase.average:
        for master, beginning in zip(optimizer.masters, began, strict=True):
            master.lerp_(beginning, 0.5)
    weights = optimizer.weights()
    torch.save(weights, checkpoint)
    trained = Network(recipe.network)
    trained.load_state_dict(weights)
    return trained


def losses_of(network: Network, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The loss to train on, the plain loss of each learned token, and each head's :func:`pointer_loss`."""
    targets, target_weights = batch.ids[:, 1:], batch.weights[:, 1:]
    learned = target_weights > 0
    hidden, looks = network(batch.ids[:, :-1], batch.pointers[:, :3])
    losses = F.cross_entropy(network.logits(hidden[learned]).float(), targets[learned], reduction="none")
    picked = target_weights[learned]
    heads, sources = batch.pointers[:, 1], batch.pointers[:, 3]
    pointed = torch.stack(
        [pointer_loss(looks[heads == head], sources[heads == head]) for head in (WORD_HEAD, NEXT_WORD_HEAD)]
    )
    return (losses * picked).sum() / picked.sum() + _POINTER_WEIGHT * pointed.sum(), losses, pointed


def pointer_loss(looks: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """How far a head is from looking where it should (:attr:`.rows.Row.pointers`), in nats.

    From the text alone a model of this size hardly finds out that a name of no meaning is to be looked up by
    its description: no small step towards it pays. Telling one head where to look makes every step pay.
    """
    return F.cross_entropy(looks, names) if len(names) else looks.sum()


def _pass_words_on(network: Network, tokenizer: Tokenizer, phase: Phase, seed: int) -> None:
    """:func:`.induction.pass_words_on` where the names of tools begin."""
    few = replace(phase, rows=(NAMES_ROWS,), copy_rows=0.0, tokens_per_step=_NAMES_TOKENS)
    source = batches(tokenizer, few, seed)
    tokens = torch.cat([next(source).ids[:, :-1] for _ in range(_NAMES_BATCHES)])
    named = torch.zeros_like(tokens, dtype=torch.bool)
    named[:, 1:] = tokens[:, :-1] == tokenizer.token_to_id(NAME_OPENS)
    induction.pass_words_on(network, tokens, named)


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


class _Writing(IterableDataset[Batch]):
    """Endless batches, other ones in each worker."""

    def __init__(self, tokenizer: Path, phase: Phase, seed: int) -> None:
        self._tokenizer, self._phase, self._seed = tokenizer, phase, seed

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        own = self._seed + (1_000_003 * worker.id if worker is not None else 0)
        return batches(load_tokenizer(self._tokenizer), self._phase, own)


def feed(tokenizer: Path, phase: Phase, seed: int, workers: int, device: torch.device) -> Iterator[Batch]:
    """Endless batches of one phase on ``device``, written by ``workers`` processes, or by this one for 0."""
    loader = DataLoader(
        _Writing(tokenizer, phase, seed),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=_AHEAD if workers else None,
        multiprocessing_context="spawn" if workers else None,
    )
    written = (Batch(*(part.to(device, non_blocking=True) for part in batch)) for batch in loader)
    return repeated(written, phase.uses, seed)


def repeated(written: Iterable[Batch], uses: int, seed: int) -> Iterator[Batch]:
    """Each batch ``uses`` times: those of a window in one order after the other."""
    rng, window = Random(seed), []
    for batch in written:
        yield batch
        window.append(batch)
        if len(window) == _WINDOW:
            for _ in range(uses - 1):
                rng.shuffle(window)
                yield from window
            window.clear()
