"""What contexts in fewer bits cost a model: perplexity and likeliest tokens (LLMS, Fig. 12)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from ..common.bench_model import title_of
from ..common.estimates import Estimate, bootstrap
from ..common.process import SideProcess
from ..common.report import Table
from ..engines.local import wait_until_stored

if TYPE_CHECKING:
    from agentrt.runtime.kv.store.chunk_files import Chunk

NEWS, HELD_BACK = "news", "encyclopedia, held back"
"""Kinds of texts; with the latter no setting was chosen."""
AS_IS: Final = "as in the arena"
COMPRESSED: Final = "by density, half the bytes"
STATIC: Final = {4: "4 bits", 2: "2 bits"}
RATIO: Final = 0.5
"""Bytes of compressed contexts over those at 8 bits (LLMS §4)."""


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
    """All texts of a kind with the keys and values of their first halves stored in one way."""

    model: str
    texts: str
    """Their kind."""
    stored: str
    bytes_share: float
    """Of the bytes in the arena."""
    perplexity: float
    increase_pct: Estimate
    """Of the perplexity over that with the arena's own keys and values."""
    agreement_pct: Estimate
    """Of the places, those where the likeliest token is the same."""


def measure_accuracy(
    model: str, texts: Mapping[str, Sequence[str]], window: int, progress: Callable[[str], None]
) -> list[Accuracy]:
    """Predict the second half of each text, of ``window`` tokens in all, after a first half that was stored.

    ``texts`` are by kind. A first half is stored as it is, at each static level, and as the runtime
    compresses contexts. Texts that are shorter are left out.
    """
    found: list[Accuracy] = []
    with SideProcess(_Scorer, model, window) as scorer:
        for kind, of_kind in texts.items():
            windows = [index for text in of_kind if (index := scorer.call("window", text)) is not None]
            ways: dict[str, list[Predicted]] = {}
            for level, name in ((0, AS_IS), *STATIC.items()) if windows else ():
                progress(f"perplexity of {kind} with contexts stored: {name}")
                ways[name] = [scorer.call("predict", index, level) for index in windows]
            if windows:
                progress(f"perplexity of {kind} with contexts stored: {COMPRESSED}")
                ways[COMPRESSED] = [scorer.call("predict_compressed", index) for index in windows]
            found += [accuracy_of(model, kind, name, each, ways[AS_IS]) for name, each in ways.items()]
    return found


def accuracy_of(
    model: str, texts: str, stored: str, predicted: Sequence[Predicted], plain: Sequence[Predicted]
) -> Accuracy:
    """Compare predictions after stored first halves with those after ``plain`` ones, text by text."""
    pairs = [_TextPair.of(each, other) for each, other in zip(predicted, plain, strict=True)]
    return Accuracy(
        model,
        texts,
        stored,
        sum(each.stored_bytes for each in predicted) / sum(each.stored_bytes for each in plain),
        exp(-fmean(value for each in predicted for value in each.log_probabilities)),
        bootstrap(pairs, _increase_pct),
        bootstrap(pairs, _agreement_pct),
    )


@dataclass(frozen=True, slots=True)
class _TextPair:
    """One text, predicted after a stored first half and after a plain one."""

    tokens: int
    lost: float
    """By how much the log-probabilities of all its tokens together are lower."""
    equal: int
    """Places where the likeliest token is the same."""

    @classmethod
    def of(cls, each: Predicted, plain: Predicted) -> _TextPair:
        return cls(
            len(each.likeliest),
            sum(plain.log_probabilities) - sum(each.log_probabilities),
            sum(ours == theirs for ours, theirs in zip(each.likeliest, plain.likeliest, strict=True)),
        )


def _increase_pct(pairs: Sequence[_TextPair]) -> float:
    return 100 * (exp(sum(each.lost for each in pairs) / sum(each.tokens for each in pairs)) - 1)


def _agreement_pct(pairs: Sequence[_TextPair]) -> float:
    return 100 * sum(each.equal for each in pairs) / sum(each.tokens for each in pairs)


def accuracy_figures(accuracies: Sequence[Accuracy], model: str) -> dict[str, Estimate]:
    """Return the figures of ``model``, of contexts that are compressed as the runtime does it."""
    return {
        f"compressed_ppl_increase_pct{'_held_back' if each.texts == HELD_BACK else ''}": each.increase_pct
        for each in accuracies
        if (each.model, each.stored) == (model, COMPRESSED)
    }


def accuracy_table(accuracies: Sequence[Accuracy]) -> Table:
    """Figure 12: what contexts in fewer bits cost."""
    return Table(
        title="accuracy by stored bits (LLMS, Fig. 12)",
        columns=(
            *("model", "texts", "stored", "share of the bytes", "perplexity", "increase, %"),
            "equal likeliest tokens, %",
        ),
        rows=tuple(
            (
                *(title_of(each.model), each.texts, each.stored, round(each.bytes_share, 3)),
                *(round(each.perplexity, 3), each.increase_pct, each.agreement_pct),
            )
            for each in accuracies
        ),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """The tokens of a text in the chat template, and what the runtime stores of its first half."""

    stored: tuple[int, ...]
    """Whole blocks."""
    rest: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    """One for each block of ``stored``."""


class _Scorer:
    """The kernels of the runtime with its default settings, whose KV cache goes through a codec."""

    def __init__(self, model: str, window: int) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig
        from agentrt.runtime.kv.compression.codec import BlockCodec
        from agentrt.runtime.model.directory import open_model_directory
        from agentrt.runtime.model.native.library import native_library

        from ..common.pieces import open_whole

        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        settings = RuntimeConfig(context_folder=Path(self._folder.name), context_compression=RATIO)
        self._runtime = LocalRuntime.open(model, settings)
        self._window = window
        directory = open_model_directory(model, native=native_library)
        self._model = open_whole(
            directory, settings.device_properties(keeps_weights=directory.keeps_weights), window
        )
        self._codec = BlockCodec(self._model.layout)
        self._windows: list[_Window] = []

    def window(self, text: str) -> int | None:
        """Store the first half of ``text``; return the number of its window, None if it is too short."""
        half = [{"role": "user", "content": text[: len(text) // 2]}]
        tokens = self._tokens(text)
        if len(tokens) < self._window:
            return None
        tokens = tokens[: self._window]
        of_half = self._tokens(text[: len(text) // 2])
        pairs = zip(tokens[: self._window // 2], of_half, strict=False)
        common = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
        app = f"text {len(self._windows)}"
        self._runtime.generate(half, app=app, max_tokens=1)
        wait_until_stored(self._runtime)
        chunks = self._stored(app, tokens[:common])
        size = len(chunks) * self._model.layout.block_tokens
        if not chunks:
            raise ValueError("the runtime has stored nothing of a text")
        self._windows.append(_Window(tuple(tokens[:size]), tuple(tokens[size:]), chunks))
        return len(self._windows) - 1

    def predict(self, index: int, level: int) -> Predicted:
        """The tokens behind the first half, which is stored at ``level`` and loaded again; 0 is as it is."""
        window = self._windows[index]
        self._model.forward(list(window.stored), 0, rows=1)
        rows = self._rows(window)
        payloads = self._codec.encode(rows, [level] * len(window.chunks), range(len(window.chunks)))
        self._codec.decode(payloads, level, rows)
        return self._predicted(window, payloads)

    def predict_compressed(self, index: int) -> Predicted:
        """The tokens behind the first half as the runtime has stored it."""
        window = self._windows[index]
        self._model.forward(list(window.stored), 0, rows=1)
        rows = self._rows(window)
        swapper: Any = self._runtime._kept.swapper
        for place, chunk in enumerate(window.chunks):
            block = [row[place : place + 1] for row in rows]
            swapper._saver._codec.decode([chunk.payload], chunk.level, block)
        return self._predicted(window, [chunk.payload for chunk in window.chunks])

    def _predicted(self, window: _Window, payloads: Sequence[bytes]) -> Predicted:
        found, likeliest = self._model.log_probabilities(list(window.rest), len(window.stored))
        return Predicted(tuple(found), tuple(likeliest), sum(map(len, payloads)))

    def _tokens(self, text: str) -> list[int]:
        """The token ids of a user's message in the chat template."""
        messages = [{"role": "user", "content": text}]
        return list(self._runtime._input_processor.process(messages).prompt_token_ids)

    def _stored(self, app: str, tokens: list[int]) -> tuple[Chunk, ...]:
        """The stored chunks of the whole blocks of ``tokens``, in order."""
        from agentrt.runtime.kv.block_hashes import BlockHashes

        store, salts = self._runtime._kept.store, self._runtime._kept.salts
        assert store is not None
        size = self._model.layout.block_tokens
        hashes = BlockHashes(salts.salt_for(app), size).compute(tokens, len(tokens) // size)
        locations = (store.locate(app, block_hash) for block_hash in hashes)
        found = itertools.takewhile(lambda location: location is not None, locations)
        return tuple(store.read(location) for location in found if location is not None)

    def _rows(self, window: _Window) -> list[Any]:
        """The stored blocks of the KV cache, by cache tensor."""
        import numpy as np

        return [
            cache.data.view(np.uint8).reshape(cache.shape[0], -1)[: len(window.chunks)]
            for _, cache in sorted(self._model.caches.items())
        ]
