"""Tolerance of a model to compressed contexts: what low bits do to its predictions (LLMS §3.2).

Small models break under few bits, and each in its own way: some in their first or last layers, some in two
layers in the middle, most in keys before values. The probe compresses the beginning of texts, has the model
read on, and compares its predictions with those over the uncompressed beginning: for each cache alone, to
share out the bits, and for each level. Harm is the Kullback-Leibler divergence in nats per token, which is
about the relative increase of perplexity, and has much less noise.

Texts differ by kind: code and JSON bear other bits than prose. What a level costs is the upper bound of a
confidence interval over texts of several kinds, as the runtime does not know which come.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ..saved_contexts import Rows
from .codec import WHOLE, BitPlan, BlockCodec

PREFIX_TOKENS: Final = 448
"""Tokens of a text that are compressed."""
SCORED_TOKENS: Final = 80
"""Tokens behind them that are predicted."""

_MIDDLE, _LOW, _FINE = 4, 2, 7
_FEWEST_BITS: Final = 2
_MIDDLE_MEANS: Final = (4.0, 4.5, 5.0, 6.0)
"""Mean bits of the middle level, the fewest that the model bears."""
_LOW_MEANS: Final = (2.0, 2.5, 3.0, 3.5)
_LOW_TOLERANCE: Final = 10.0
"""How much more harm than the middle level the low one may do: it is for chunks that carry least."""
_WORTH_IT: Final = 0.7
"""A second protected block is worth its bytes if it leaves this share of the harm."""
_KINDS: Final = ("tools", "news", "chat", "german", "logs", "prose")
"""Kinds of texts to measure on."""
_SCANNED_TOKENS: Final = 64
_SCANNED_TEXTS: Final = 2
"""Tokens and texts that are compared where one cache by itself has few bits: much harm, which few show."""
_STUDENT: Final = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895)
"""Student's t of 95 % on one side, by the number of texts from two on."""
_LEAST_LOSS: Final = 1e-6
_ROWS_AT_ONCE: Final = 16

_log: Final = logging.getLogger(__name__)


class ProbedModel(Protocol):
    """A model over an arena in which nothing else runs."""

    @property
    def rows(self) -> Sequence[Rows]:
        """The memory of the arena by cache; its first blocks are those of the sequence, in order."""

    def forward(self, tokens: Sequence[int], past: int, rows: int) -> NDArray[np.float32]:
        """Compute ``tokens`` behind ``past`` others; return the logits of the last ``rows``."""


class CompressionPlan(BaseModel):
    """What the probe found out about one model with one KV layout."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bits: Mapping[int, tuple[int, ...]]
    """Bits of each cache by level, see :class:`BitPlan`. Levels that do too much harm are missing."""
    sink_blocks: int
    losses: Mapping[int, float]
    """Harm of each level if all blocks but the first ones had it: the upper bound over texts."""
    refused: Mapping[int, float]
    """Harm of the levels that are missing."""

    @property
    def bit_plan(self) -> BitPlan:
        """The plan of the codec."""
        return BitPlan(self.bits, self.sink_blocks)


def probe_texts() -> list[str]:
    """Return texts to measure on, each of another kind."""
    folder = Path(__file__).parent
    return [(folder / f"probe_{kind}.txt").read_text(encoding="utf-8") for kind in _KINDS]


def probe(
    model: ProbedModel,
    caches: int,
    block_tokens: int,
    codec_of: Callable[[BitPlan], BlockCodec],
    texts: Sequence[Sequence[int]],
    tolerance: float,
) -> CompressionPlan:
    """Find the bits that each of ``caches`` needs; refuse levels that cost more than ``tolerance``.

    ``texts`` are tokens of at least two texts, of which :data:`PREFIX_TOKENS` + :data:`SCORED_TOKENS` are
    used. ``tolerance`` is the share by which perplexity may increase.
    """
    measured = _Measurement(model, codec_of, block_tokens, texts)
    # Any change moves the roundings of what follows: that much is no harm of low bits.
    floor = measured.harms((_FINE,) * caches, 1)

    def harm(bits: tuple[int, ...], sinks: int) -> float:
        found = [each - least for each, least in zip(measured.harms(bits, sinks), floor, strict=True)]
        return max(_LEAST_LOSS, upper_bound(found))

    sensitivities = _sensitivities(measured, caches)
    sinks = 1
    plans: dict[int, tuple[int, ...]] = {WHOLE: (WHOLE,) * caches}
    losses, refused = {WHOLE: 0.0}, dict[int, float]()
    for level, means, most in (
        (_MIDDLE, _MIDDLE_MEANS, tolerance),
        (_LOW, _LOW_MEANS, _LOW_TOLERANCE * tolerance),
    ):
        if refused:
            break
        for mean in means:
            bits = allocate_bits(sensitivities, mean)
            loss = harm(bits, sinks)
            if level == _MIDDLE and mean == means[0]:
                protected = harm(bits, 2)
                if protected <= _WORTH_IT * loss:
                    sinks, loss = 2, protected
            if loss <= most:
                plans[level], losses[level] = bits, loss
                break
        else:
            refused[level] = loss
    plan = CompressionPlan(bits=plans, sink_blocks=sinks, losses=losses, refused=refused)
    _log.info("Compression of contexts: %s", plan)
    return plan


def upper_bound(samples: Sequence[float]) -> float:
    """Return what the mean of all texts is below, in 19 of 20 cases, by those of a few."""
    return fmean(samples) + _STUDENT[len(samples) - 2] * stdev(samples) / sqrt(len(samples))


def allocate_bits(sensitivities: Sequence[float], mean: float) -> tuple[int, ...]:
    """Return the bits of each cache, ``mean`` on average, that do least harm together.

    A cache of ``b`` bits does its sensitivity times ``4 ** -b``: with each bit the error halves, and harm
    goes with its square.
    """
    bits = [_FEWEST_BITS] * len(sensitivities)
    gains = [(-each * 4.0**-_FEWEST_BITS, at) for at, each in enumerate(sensitivities)]
    heapq.heapify(gains)
    for _ in range(round((mean - _FEWEST_BITS) * len(bits))):
        gain, at = heapq.heappop(gains)
        bits[at] += 1
        if bits[at] < WHOLE:
            heapq.heappush(gains, (gain / 4, at))
    return tuple(bits)


def _sensitivities(measured: _Measurement, caches: int) -> list[float]:
    """Return by how much few bits in each cache alone change the predictions, in any unit."""
    whole = [WHOLE] * caches
    scanned = {"texts": _SCANNED_TEXTS, "tokens": _SCANNED_TOKENS}
    floor = fmean(measured.harms((_FINE,) * caches, 1, **scanned))
    found = []
    for cache in range(caches):
        bits = (*whole[:cache], _FEWEST_BITS, *whole[cache + 1 :])
        found.append(fmean(measured.harms(bits, 1, **scanned)) - floor)
    # What noise hides is taken to be as little as the least that shows.
    least = max(_LEAST_LOSS, min((each for each in found if each > 0), default=0.0), max(found) / 256)
    return [max(each, least) for each in found]


@dataclass(frozen=True, slots=True)
class _Text:
    """The uncompressed blocks of a text's beginning, and the predictions behind it."""

    saved: list[Rows]
    continuation: Sequence[int]
    log_probabilities: NDArray[np.float16]


class _Measurement:
    """Harm of plans on some texts."""

    def __init__(
        self,
        model: ProbedModel,
        codec_of: Callable[[BitPlan], BlockCodec],
        block_tokens: int,
        texts: Sequence[Sequence[int]],
    ) -> None:
        self._model = model
        self._codec_of = codec_of
        self._blocks = PREFIX_TOKENS // block_tokens
        self._texts = [self._read(text) for text in texts]

    def _read(self, text: Sequence[int]) -> _Text:
        self._model.forward(text[:PREFIX_TOKENS], 0, 0)
        saved = [cache[: self._blocks].copy() for cache in self._model.rows]
        continuation = text[PREFIX_TOKENS : PREFIX_TOKENS + SCORED_TOKENS]
        logits = self._model.forward(continuation, PREFIX_TOKENS, SCORED_TOKENS)
        return _Text(saved, continuation, _log_softmax(logits).astype(np.float16))

    def harms(
        self, bits: tuple[int, ...], sinks: int, texts: int | None = None, tokens: int = SCORED_TOKENS
    ) -> list[float]:
        """Return the mean divergence of the last ``tokens`` of each of the first ``texts``, or of all.

        All blocks of the beginnings have ``bits``, but for ``sinks`` first ones that are whole.
        """
        plan = BitPlan({WHOLE: (WHOLE,) * len(bits), _MIDDLE: bits}, sinks)
        codec = self._codec_of(plan)
        found = []
        for text in self._texts[:texts]:
            payloads = codec.encode(text.saved, [_MIDDLE] * self._blocks, range(self._blocks))
            codec.decode(payloads, _MIDDLE, [cache[: self._blocks] for cache in self._model.rows])
            logits = self._model.forward(text.continuation, PREFIX_TOKENS, tokens)
            expected = text.log_probabilities[-tokens:]
            total = 0.0
            for begin in range(0, tokens, _ROWS_AT_ONCE):
                rows = slice(begin, begin + _ROWS_AT_ONCE)
                before = expected[rows].astype(np.float32)
                total += float((np.exp(before) * (before - _log_softmax(logits[rows]))).sum())
            found.append(total / tokens)
        return found


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted: NDArray[np.float32] = logits - logits.max(-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(-1, keepdims=True))
    return shifted
