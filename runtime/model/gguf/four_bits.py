"""Decides whether weights of 4 bits keep their codes or take 8 bits, with which the CPU computes faster."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Final

from .file_format import Tensor
from .quantisation import FOUR_BITS

_LARGEST_SHARE: Final = 1 / 8
"""Of the machine's memory, for weights that take 8 bits instead of 4."""


def keeps_four_bits(tensors: Iterable[Tensor]) -> bool:
    """Return whether the 4-bit weights among ``tensors`` would take too much memory at 8 bits."""
    memory = _memory()
    weights = sum(math.prod(tensor.shape) for tensor in tensors if tensor.type in FOUR_BITS)
    return memory is not None and weights > memory * _LARGEST_SHARE


def _memory() -> int | None:
    """Return the bytes of the machine's memory; None where the system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
