"""An embedding model: its directory, and vectors of texts, in batches that apps take turns at."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import openvino_genai
from numpy.typing import NDArray

from agentrt.concurrency.fair_threads import Cancellation, FairThreads
from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import AgentRTError, ConfigurationError, InvalidRequestError, ModelFormatError
from agentrt.finite import shown
from agentrt.priority import Priority

from ..files.graph_files import check_graph
from ..model.directory import explain_unreadable, find_model, refuse_special_files
from ..model.json_files import read_json
from ..model.openvino_core import load_on_own_thread, openvino_message
from ..request.validation import check_text

_POSITIONS_AFTER_PADDING: Final = ("camembert", "roberta", "xlm-roberta")
"""Model types whose positions begin behind that of the padding token."""
_MOST_TOKENS: Final = 2**20
_BATCH_TEXTS: Final = 32
_BATCH_TOKENS: Final = 2048
"""Texts of a batch have this many tokens when all are as long as the longest: fractions of a second."""
_TOKEN_CHARACTERS: Final = 64
"""A text with more characters for each token that the model takes is not tokenized."""

Vector = NDArray[np.float32]


class Pooling(enum.StrEnum):
    """How the vectors of a text's tokens become one."""

    CLS = "cls"
    """That of the first token."""
    MEAN = "mean"
    """Their mean."""
    LAST = "last"
    """That of the last token."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of some texts."""

    vectors: list[Vector]
    """Of length 1, in the order of the texts."""
    tokens: int
    """Tokens of all texts, with those that the model puts around each."""


class EmbeddingModel:
    """One embedding model, loaded. Thread-safe: its batches run one after the other.

    It has a thread of its own beside those of generation, with which it shares the cores.
    """

    def __init__(self, path: Path, pooling: Pooling, max_tokens: int, shorter: frozenset[int] | None) -> None:
        """See :meth:`open`.

        ``shorter`` are dimensions to which the model was trained to be cut (Matryoshka); None for any.
        """
        self.name = path.resolve().name
        self.max_tokens = max_tokens
        """The most tokens of one text."""
        self._shorter = shorter
        self._threads = FairThreads("agentrt-embed", threads=1, per_app=1)
        try:
            self._pipeline, self._tokenizer = load_on_own_thread(lambda: _load(path, pooling))
            self.dimensions = len(self._embed(["a"])[0])
            """Length of a vector."""
        except AgentRTError:
            raise
        except Exception as error:
            raise ModelFormatError(
                f"the embedding model in {path} cannot be used ({openvino_message(error)}) Export "
                "it again: optimum-cli export openvino --model NAME --task feature-extraction DIRECTORY"
            ) from error
        native_calls.keep_in_forks(self)

    @classmethod
    def open(cls, model: str | os.PathLike[str], pooling: Pooling | None = None) -> Self:
        """Load an embedding model, once its files are found to be complete.

        ``model`` is a directory as ``optimum-cli export openvino --task feature-extraction`` writes it, or
        the name of a pulled one. Without ``pooling`` it is that of ``1_Pooling/config.json``, which models of
        Sentence Transformers have.

        Raises:
            ModelNotFoundError: there is no such directory.
            ModelFormatError: a file is missing or damaged.
            ConfigurationError: the directory does not say how the vectors are pooled.
        """
        path = find_model(os.fspath(model))
        with explain_unreadable(path):
            if not path.is_dir():
                raise ModelFormatError(
                    f"{path} is no directory. Export an embedding model: optimum-cli export openvino --model "
                    "NAME --task feature-extraction DIRECTORY"
                )
            refuse_special_files(path)
            for graph in ("openvino_model", "openvino_tokenizer"):
                check_graph(path / f"{graph}.xml")
            config = read_json(path / "config.json")
            max_tokens = _max_tokens(path, config)
            stated = pooling or _stated_pooling(path)
        return cls(path, stated, max_tokens, _shorter(config))

    async def aembed(
        self,
        texts: Sequence[str],
        *,
        dimensions: int | None = None,
        app: str = "",
        priority: Priority = Priority.REACTIVE,
    ) -> Embeddings:
        """Return the vectors of ``texts`` without blocking the event loop.

        Apps take turns, batch by batch, and reactive requests come first. Cancelling the task ends the work
        after the batch. ``dimensions`` cuts the vectors, for models that were trained for that, and makes
        their length 1 again.

        Raises:
            InvalidRequestError: a text has too many tokens or is empty, or the vectors cannot be cut so.
        """
        self._check_dimensions(dimensions)
        urgent = priority == Priority.REACTIVE

        def count(cancellation: Cancellation) -> list[int]:
            return self._count_tokens(texts, cancellation)

        counts = await self._threads.run(app, count, urgent=urgent)
        vectors: list[Vector | None] = [None] * len(texts)
        for batch in _batches(counts):
            chosen = [texts[index] for index in batch]
            work = functools.partial(self._embed, chosen)
            embedded = await self._threads.run(app, work, urgent=urgent)
            for index, vector in zip(batch, embedded, strict=True):
                vectors[index] = _cut(vector, dimensions)
        return Embeddings([vector for vector in vectors if vector is not None], sum(counts))

    def _check_dimensions(self, dimensions: int | None) -> None:
        if dimensions is None or dimensions == self.dimensions:
            return
        if not 0 < dimensions < self.dimensions or (
            self._shorter is not None and dimensions not in self._shorter
        ):
            allowed = "fewer than" if self._shorter is None else "of the model's own numbers or"
            raise InvalidRequestError(
                "dimensions",
                f"{self.name} was not trained for {shown(dimensions)}. Leave it out, or use {allowed} "
                f"{self.dimensions}.",
            )

    def _count_tokens(self, texts: Sequence[str], cancellation: Cancellation) -> list[int]:
        counts = []
        most = self.max_tokens * _TOKEN_CHARACTERS
        for index, text in enumerate(texts):
            cancellation.check()
            if len(check_text(text, f"input[{index}]")) > most:
                raise _too_long(index, f"more than {most} characters", self.max_tokens)
            with native_calls:
                tokens = int(self._tokenizer.encode(text).input_ids.shape[-1])
            if tokens > self.max_tokens:
                raise _too_long(index, f"{tokens} tokens", self.max_tokens)
            counts.append(tokens)
        return counts

    def _embed(self, texts: Sequence[str], _: Cancellation | None = None) -> list[Vector]:
        with native_calls:
            rows = self._pipeline.embed_documents(list(texts))
        return [np.asarray(row, np.float32) for row in rows]


def _max_tokens(path: Path, config: Mapping[str, Any]) -> int:
    stated = [config.get("max_position_embeddings")]
    if config.get("model_type") in _POSITIONS_AFTER_PADDING and isinstance(stated[0], int):
        stated[0] -= int(config.get("pad_token_id") or 0) + 1
    for file, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        if (path / file).is_file():
            stated.append(read_json(path / file).get(key))
    limits = [each for each in stated if isinstance(each, int) and 0 < each <= _MOST_TOKENS]
    if not limits:
        raise ModelFormatError(
            f"{path / 'config.json'} states no usable max_position_embeddings, so the length of a text has "
            "no limit. Add it: the number of tokens the model was trained for."
        )
    return min(limits)


def _stated_pooling(path: Path) -> Pooling:
    file = path / "1_Pooling" / "config.json"
    modes = read_json(file) if file.is_file() else {}
    stated = [
        pooling
        for pooling, key in (
            (Pooling.CLS, "pooling_mode_cls_token"),
            (Pooling.MEAN, "pooling_mode_mean_tokens"),
            (Pooling.LAST, "pooling_mode_lasttoken"),
        )
        if modes.get(key) is True
    ]
    if len(stated) != 1:
        raise ConfigurationError(
            f"{path} does not say how the vectors of tokens become one: it has no 1_Pooling/config.json with "
            "one of cls, mean and last. Copy that file from the original model, or name the pooling "
            "(--embedding-pooling)."
        )
    return stated[0]


def _shorter(config: Mapping[str, Any]) -> frozenset[int] | None:
    dimensions = config.get("matryoshka_dimensions")
    if isinstance(dimensions, list):
        return frozenset(each for each in dimensions if isinstance(each, int) and each > 0)
    return None if config.get("is_matryoshka") is True else frozenset()


def _load(path: Path, pooling: Pooling) -> tuple[Any, Any]:
    poolings = openvino_genai.TextEmbeddingPipeline.PoolingType
    config = openvino_genai.TextEmbeddingPipeline.Config(
        pooling_type={
            Pooling.CLS: poolings.CLS,
            Pooling.MEAN: poolings.MEAN,
            Pooling.LAST: poolings.LAST_TOKEN,
        }[pooling],
        normalize=True,
    )
    folder = str(path)
    return openvino_genai.TextEmbeddingPipeline(folder, "CPU", config), openvino_genai.Tokenizer(folder)


def _batches(counts: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indexes of texts with ``counts`` tokens in batches, the shortest first."""
    batch: list[int] = []
    for index in sorted(range(len(counts)), key=counts.__getitem__):
        if batch and (len(batch) == _BATCH_TEXTS or (len(batch) + 1) * counts[index] > _BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _cut(vector: Vector, dimensions: int | None) -> Vector:
    if dimensions is None or dimensions == len(vector):
        return vector
    short = vector[:dimensions]
    length = float(np.linalg.norm(short))
    return short / np.float32(length) if length else short


def _too_long(index: int, has: str, limit: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"input[{index}]", f"it has {has}, and the model takes {limit} tokens. Divide the text."
    )
