"""Batches for training: written by several processes, moved to the device, each used more than once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .recipes import Phase
from .rows import Batch, batches, load_tokenizer

_WINDOW = 128
_AHEAD = 4


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
