"""Noise by which tokens are sampled: that of a seed, a step and a token, whatever the other tokens are."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

_INCREMENT: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)


def gumbel_noise(seed: int, step: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number for each token of ``ids``, drawn from the standard Gumbel distribution.

    The token with the largest sum of logit and noise is a sample of the softmax (Gumbel-max). A generator
    whose numbers are taken in order would give every token behind a candidate that appears or vanishes
    another number; here they are SplitMix64's at the places ``ids`` of a stream for ``seed`` and ``step``.
    """
    stream = hashlib.blake2b(f"{seed} {step}".encode(), digest_size=8).digest()
    mixed = np.uint64(int.from_bytes(stream, "little")) + ids.astype(np.uint64) * _INCREMENT
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST_FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    uniform = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # neither 0 nor 1
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise
