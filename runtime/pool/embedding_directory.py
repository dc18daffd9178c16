"""Directories of embedding models: checks that one is complete, and reads how it is used."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentrt.errors import ConfigurationError, ModelFormatError

from ..files.graph_files import check_graph
from ..model.directory import explain_unreadable, find_model, read_json, refuse_special_files

_POSITIONS_AFTER_PADDING: Final = ("camembert", "roberta", "xlm-roberta")
"""Model types whose positions begin behind that of the padding token."""
_MOST_TOKENS: Final = 2**20


class Pooling(enum.StrEnum):
    """How the vectors of a text's tokens become one."""

    CLS = "cls"
    """That of the first token."""
    MEAN = "mean"
    """Their mean."""
    LAST = "last"
    """That of the last token."""


@dataclass(frozen=True, slots=True)
class EmbeddingDirectory:
    """A complete directory of an embedding model, and what its JSON files say."""

    path: Path
    model_id: str
    """The name of the directory."""
    max_tokens: int
    """The most tokens of one text."""
    pooling: Pooling
    shorter: frozenset[int] | None
    """Dimensions to which the model was trained to be cut (Matryoshka); None for any."""


def open_embedding_directory(
    model: str | os.PathLike[str], pooling: Pooling | None = None
) -> EmbeddingDirectory:
    """Find an embedding model, and check that its files are complete.

    ``model`` is a directory as ``optimum-cli export openvino --task feature-extraction`` writes it, or the
    name of a pulled one. Without ``pooling`` it is that of ``1_Pooling/config.json``, which models of
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
        return EmbeddingDirectory(
            path=path,
            model_id=path.resolve().name,
            max_tokens=_max_tokens(path, config),
            pooling=pooling or _stated_pooling(path),
            shorter=_shorter(config),
        )


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
