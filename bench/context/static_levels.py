"""What keys and values in fewer bits cost a model: perplexity and the likeliest tokens (LLMS, Fig. 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean

from ..common.process import SideProcess
from ..models.runtime_side import use_cache

LEVELS = (8, 4, 2)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The tokens of one text behind its first half."""

    log_probabilities: tuple[float, ...]
    likeliest: tuple[int, ...]
    """The likeliest token at each of these places."""
    stored_bytes: int
    """Bytes that the first half takes."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """All texts with the keys and values of their first halves stored in one way."""

    name: str
    bytes_share: float
    """Of the bytes in the arena."""
    perplexity: float
    increase_pct: float
    """Of the perplexity over that with the arena's own keys and values."""
    agreement: float
    """Share of places where the likeliest token is the same."""


def measure_static_levels(
    model: str, cache: str, texts: Sequence[str], window: int, progress: Callable[[str], None]
) -> list[Accuracy]:
    """Predict the second half of each text after a first half that was stored at each of :data:`LEVELS`.

    ``window`` is the number of tokens of a text; texts that are shorter are left out.
    """
    with SideProcess(_Scorer, model, cache, window) as scorer:
        windows = [tokens for text in texts if len(tokens := scorer.call("tokens", text)) == window]
        by_level: dict[int, list[Predicted]] = {}
        for level in (0, *LEVELS):
            progress(f"perplexity with stored keys and values, {f'{level} bits' if level else 'as they are'}")
            by_level[level] = [scorer.call("predict", tokens, level) for tokens in windows]
    if not windows:
        return []
    plain = by_level[0]
    names = {level: f"{level} bits" if level else "as in the arena" for level in by_level}
    return [accuracy_of(names[level], predicted, plain) for level, predicted in by_level.items()]


def accuracy_of(name: str, predicted: Sequence[Predicted], plain: Sequence[Predicted]) -> Accuracy:
    """Compare predictions after stored first halves with those after ``plain`` ones."""

    def perplexity(of: Sequence[Predicted]) -> float:
        return exp(-fmean(value for each in of for value in each.log_probabilities))

    equal = [
        ours == theirs
        for each, other in zip(predicted, plain, strict=True)
        for ours, theirs in zip(each.likeliest, other.likeliest, strict=True)
    ]
    return Accuracy(
        name,
        sum(each.stored_bytes for each in predicted) / sum(each.stored_bytes for each in plain),
        perplexity(predicted),
        100 * (perplexity(predicted) / perplexity(plain) - 1),
        fmean(equal),
    )


class _Scorer:
    """The kernels of the runtime with its default settings, whose KV cache goes through the codec."""

    def __init__(self, model: str, cache: str, window: int) -> None:
        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.context.compression.codec import BlockCodec
        from agentrt.runtime.heg.kernel import KernelKind
        from agentrt.runtime.heg.partition import Partition
        from agentrt.runtime.model.directory import open_model_directory
        from agentrt.runtime.model.openvino_core import load_on_own_thread
        from agentrt.runtime.model.paged import read_paged_graph
        from agentrt.runtime.model.tokenizer import Tokenizer

        from ..common.pieces import Pieces

        use_cache(cache)
        directory = open_model_directory(model)
        self._window = window
        pieces = {KernelKind.LAYERS: Partition(read_paged_graph(directory)).layer_segments(())}
        properties = RuntimeConfig().device_properties()
        self._model = load_on_own_thread(lambda: Pieces(pieces, properties, window))
        self._tokenizer = Tokenizer(directory, self._model.vocabulary_size)
        self._codec = BlockCodec(self._model.layout)
        size = self._model.layout.block_tokens
        self._stored_blocks = window // 2 // size
        self._stored_tokens = self._stored_blocks * size

    def tokens(self, text: str) -> list[int]:
        """The first tokens of ``text``."""
        return self._tokenizer.encode(text)[: self._window]

    def predict(self, tokens: list[int], level: int) -> Predicted:
        """The tokens behind the first blocks, which are stored at ``level`` and loaded again."""
        import numpy as np

        first, rest = tokens[: self._stored_tokens], tokens[self._stored_tokens :]
        self._model.forward(first, 0, rows=1)
        stored = self._store(level)
        logits = self._model.forward(rest, len(first), rows=len(rest))[:-1].astype(np.float64)
        chosen = logits[np.arange(len(rest) - 1), rest[1:]]
        found: list[float] = (chosen - np.logaddexp.reduce(logits, axis=1)).tolist()
        return Predicted(tuple(found), tuple(logits.argmax(axis=1).tolist()), stored)

    def _store(self, level: int) -> int:
        """Encode the stored blocks and decode them in their place; return their bytes."""
        import numpy as np

        rows = [
            cache.data.view(np.uint8).reshape(cache.shape[0], -1)[: self._stored_blocks]
            for _, cache in sorted(self._model.caches.items())
        ]
        payloads = self._codec.encode(rows, level, range(self._stored_blocks))
        self._codec.decode(payloads, level, rows)
        return sum(map(len, payloads))
