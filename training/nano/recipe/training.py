"""Training of one nano model: synthetic dialogues, assistant tokens only; deterministic on a CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import distributed
from torch.multiprocessing import spawn

from ..markup import NAME_OPENS
from . import induction
from .feed import feed
from .network import Network
from .optimizer import AdamW
from .recipes import NAMES_ROWS, Phase, Recipe
from .rows import NEXT_WORD_HEAD, WORD_HEAD, Batch, batches
from .sizes import SIZES
from .tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WARMUP_STEPS = 60
_SAVE_EVERY = 600
_POINTER_WEIGHT = 0.5
_NAMES_BATCHES = 60
_NAMES_TOKENS = 4096
Report = Callable[[str], None]


class Machine(NamedTuple):
    """What to train on. On a GPU, ``workers`` processes write the dialogues; a CPU process writes its own."""

    device: str = "cpu"
    workers: int = 0


CPU = Machine()


def train(recipe: Recipe, tokenizer: Path, checkpoint: Path, report: Report, machine: Machine = CPU) -> None:
    """Train one model from scratch; its fp32 weights go to ``checkpoint``, also every 600 steps."""
    torch.set_num_threads(1)  # the initialisation, too, rounds differently on two
    torch.manual_seed(recipe.seed)
    network = Network(SIZES[recipe.size])
    induction.initialise(network)
    torch.save(dict(network.named_parameters()), checkpoint)
    for number in range(len(recipe.phases)):
        train_phase(recipe, number, tokenizer, checkpoint, report, machine)


def train_phase(
    recipe: Recipe, number: int, tokenizer: Path, checkpoint: Path, report: Report, machine: Machine = CPU
) -> None:
    """Go on from ``checkpoint`` with one phase of the recipe, in as many processes as it asks for."""
    processes = recipe.phases[number].processes
    if processes == 1:
        _run(0, recipe, number, tokenizer, checkpoint, report, machine)
        return
    with TemporaryDirectory() as meeting:
        arguments = (recipe, number, tokenizer, checkpoint, report, machine, Path(meeting, "rendezvous"))
        spawn(_run, arguments, nprocs=processes)


def _run(
    rank: int,
    recipe: Recipe,
    number: int,
    tokenizer: Path,
    checkpoint: Path,
    report: Report,
    machine: Machine,
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
    network.load_state_dict(torch.load(checkpoint, map_location="cpu"))
    if phase.pass_words_on:
        _pass_words_on(network, load_tokenizer(tokenizer), phase, recipe.seed * 1000 + 7 + number)
    network.to(machine.device)
    optimizer = AdamW(network, phase.learning_rate)
    network.to(torch.bfloat16)
    source = _source(tokenizer, phase, recipe.seed * 1000 + 17 + 100 * number, rank, machine)
    steps, horizon = phase.tokens // phase.tokens_per_step, phase.horizon // phase.tokens_per_step
    began = [master.clone() for master in optimizer.masters]
    started = time.monotonic()
    recent: list[torch.Tensor] = []

    def save() -> None:
        names = [name for name, _ in network.named_parameters()]
        weights = [master.cpu() for master in optimizer.masters]
        torch.save(dict(zip(names, weights, strict=True)), checkpoint)

    for step in range(steps):
        loss, losses, pointed = losses_of(network, next(source))
        loss.backward()
        warmup = min(1.0, (step + 1) / _WARMUP_STEPS)
        optimizer.step(warmup * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / horizon))))
        recent.append(torch.cat((losses.detach().mean()[None], pointed.detach())))
        if rank == 0 and (step + 1) % 100 == 0:
            seen, elapsed = (step + 1) * phase.tokens_per_step, time.monotonic() - started
            text, word, next_word = torch.stack(recent).mean(0).tolist()
            recent.clear()
            report(
                f"{recipe.size}, phase {number + 1}: {seen / 1e6:.1f} M tokens of {phase.tokens / 1e6:.0f}, "
                f"{seen / elapsed:.0f} tokens/s, loss {text:.4f}, pointers {word:.4f} and {next_word:.4f}"
            )
        if rank == 0 and (step + 1) % _SAVE_EVERY == 0:
            save()
    if phase.average:
        for master, beginning in zip(optimizer.masters, began, strict=True):
            master.lerp_(beginning, 0.5)
    if rank == 0:
        save()
    if rendezvous is not None:
        distributed.destroy_process_group()


def _source(tokenizer: Path, phase: Phase, seed: int, rank: int, machine: Machine) -> Iterator[Batch]:
    if machine.device == "cpu":
        return batches(load_tokenizer(tokenizer), phase, seed, rank)
    return feed(tokenizer, phase, seed, machine.workers, torch.device(machine.device))


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
    few = replace(phase, rows=(NAMES_ROWS,), copy_rows=0.0, processes=1, tokens_per_step=_NAMES_TOKENS)
    source = batches(tokenizer, few, seed)
    tokens = torch.cat([next(source).ids[:, :-1] for _ in range(_NAMES_BATCHES)])
    named = torch.zeros_like(tokens, dtype=torch.bool)
    named[:, 1:] = tokens[:, :-1] == tokenizer.token_to_id(NAME_OPENS)
    induction.pass_words_on(network, tokens, named)
