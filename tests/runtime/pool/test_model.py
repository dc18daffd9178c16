"""A real embedding model, though a tiny one of random weights, through OpenVINO GenAI's pipeline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest

from agentrt.errors import (
    AgentRTError,
    ConfigurationError,
    InvalidRequestError,
    ModelFormatError,
    ModelNotFoundError,
)
from agentrt.priority import Priority
from agentrt.runtime import EmbeddingModel, Embeddings, Pooling
from agentrt.runtime.pool.embedding_model import _batches
from tests.runtime.pool.tiny_bert import HIDDEN, POSITIONS, VOCABULARY, write_tiny_bert

TEXTS = ["The weather in Oslo", "cat", "Is the sun in Bergen?", "dog dog dog", "rain"]


def embed(model: EmbeddingModel, texts: Sequence[str], **options: Any) -> Embeddings:
    return asyncio.run(model.aembed(texts, **options))


def token_ids(text: str) -> list[int]:
    """The tokens of a text of whole words."""
    return [VOCABULARY.index(token) for token in ("[CLS]", *text.lower().split(), "[SEP]")]


def pooled(folder: Path, text: str, pooling: str) -> np.ndarray[Any, Any]:
    """The vector of a text, computed without the pipeline."""
    ids = np.array([token_ids(text)], np.int64)
    compiled = ov.Core().compile_model(ov.Core().read_model(folder / "openvino_model.xml"), "CPU")
    hidden = compiled([ids, np.ones_like(ids), np.zeros_like(ids)])[0][0]
    vector = {"cls": hidden[0], "mean": hidden.mean(axis=0), "last": hidden[-1]}[pooling]
    return np.asarray(vector / np.linalg.norm(vector))


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_a_vector_is_pooled_as_the_model_says(tmp_path: Path, pooling: str) -> None:
    folder = write_tiny_bert(tmp_path / "bert", pooling)
    found = embed(EmbeddingModel.open(folder), ["the cat is in bergen"])
    np.testing.assert_allclose(found.vectors[0], pooled(folder, "the cat is in bergen", pooling), atol=1e-5)
    assert found.tokens == 7


def test_each_text_has_its_own_vector_of_length_one(bert: EmbeddingModel) -> None:
    together = embed(bert, TEXTS)
    assert bert.dimensions == HIDDEN
    for text, vector in zip(TEXTS, together.vectors, strict=True):
        (alone,) = embed(bert, [text]).vectors
        np.testing.assert_allclose(vector, alone, atol=1e-4)  # padding is no part of a text
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert together.tokens == sum(embed(bert, [text]).tokens for text in TEXTS)
    first, second = together.vectors[:2]
    assert float(first @ second) < 0.999


def test_many_texts_are_several_batches_in_the_order_of_the_texts(bert: EmbeddingModel) -> None:
    texts = [f"{'cat ' * (index % 9)}dog" for index in range(80)]
    found = embed(bert, texts)
    alone = [embed(bert, [text]).vectors[0] for text in texts[:9]]
    for index, vector in enumerate(found.vectors):
        np.testing.assert_allclose(vector, alone[index % 9], atol=1e-4)


def test_batches_are_bounded() -> None:
    counts = [5, 2000, 1, 900, 900, 900, *[3] * 40]
    batches = list(_batches(counts))
    assert sorted(index for batch in batches for index in batch) == list(range(len(counts)))
    for batch in batches:
        assert len(batch) <= 32
        assert len(batch) == 1 or len(batch) * max(counts[index] for index in batch) <= 2048
    assert list(_batches([])) == []


def test_texts_that_are_refused_are_named(bert: EmbeddingModel) -> None:
    fits = "cat " * (POSITIONS - 2)
    assert embed(bert, [fits]).tokens == POSITIONS
    divide = "Divide the text"
    for text, says in ((f"{fits} cat", divide), ("cat" * 10_000, divide), ("\ud800", "half of a character")):
        with pytest.raises(InvalidRequestError, match=says) as refused:
            embed(bert, ["cat", text])
        assert refused.value.field == "input[1]"


def test_dimensions_are_those_a_model_was_trained_for(tmp_path: Path, bert: EmbeddingModel) -> None:
    trained = EmbeddingModel.open(write_tiny_bert(tmp_path / "trained", matryoshka_dimensions=[4, 8]))
    (whole,), (cut,) = (embed(trained, ["cat"], dimensions=each).vectors for each in (HIDDEN, 8))
    np.testing.assert_allclose(cut, whole[:8] / np.linalg.norm(whole[:8]), atol=1e-6)
    any_number = EmbeddingModel.open(write_tiny_bert(tmp_path / "any", is_matryoshka=True))
    assert len(embed(any_number, ["cat"], dimensions=5).vectors[0]) == 5
    assert len(embed(bert, ["cat"], dimensions=HIDDEN).vectors[0]) == HIDDEN
    for model, dimensions in ((trained, 5), (trained, HIDDEN + 1), (any_number, HIDDEN + 1), (bert, 8)):
        with pytest.raises(InvalidRequestError, match="not trained") as refused:
            embed(model, ["cat"], dimensions=dimensions)
        assert refused.value.field == "dimensions"


def test_apps_take_turns_and_a_cancelled_request_ends(
    bert: EmbeddingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    order: list[str] = []
    run = bert._embed

    def held(texts: Sequence[str], _: Any) -> Any:
        order.append(texts[0].split()[0])
        begun.set()
        assert go.wait(30)
        return run(texts)

    monkeypatch.setattr(bert, "_embed", held)

    async def requests() -> list[Any]:
        many = asyncio.create_task(bert.aembed(["cat"] * 96, app="greedy"))
        await asyncio.to_thread(begun.wait, 30)
        background = asyncio.create_task(bert.aembed(["dog"], app="other", priority=Priority.PROACTIVE))
        urgent = asyncio.create_task(bert.aembed(["rain"], app="third"))
        gone = asyncio.create_task(bert.aembed(["sun"], app="fourth"))
        await asyncio.sleep(0)
        gone.cancel()
        go.set()
        return await asyncio.gather(many, background, urgent, gone, return_exceptions=True)

    *answers, cancelled = asyncio.run(requests())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [len(answer.vectors) for answer in answers] == [96, 1, 1]
    assert "sun" not in order
    assert order.count("cat") == 3
    assert order.index("rain") < order.index("dog")
    assert order.index("rain") < 3, "before the last batch of the app that came first"


def test_the_pooling_must_be_stated(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "bert", None)
    with pytest.raises(ConfigurationError, match="--embedding-pooling"):
        EmbeddingModel.open(folder)
    found = embed(EmbeddingModel.open(folder, Pooling.CLS), ["cat"])
    np.testing.assert_allclose(found.vectors[0], pooled(folder, "cat", "cls"), atol=1e-5)


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("config.json", None, ModelFormatError),
        ("config.json", b"[]", ModelFormatError),
        ("config.json", b'{"model_type": "bert"}', ModelFormatError),
        ("openvino_model.xml", b"<net", ModelFormatError),
        ("openvino_model.bin", b"", ModelFormatError),
        ("openvino_tokenizer.xml", None, ModelFormatError),
        ("openvino_tokenizer.bin", b"", ModelFormatError),
        ("1_Pooling/config.json", b"{}", ConfigurationError),
    ],
)
def test_a_damaged_directory_is_refused(
    tmp_path: Path, file: str, content: bytes | None, error: type[AgentRTError]
) -> None:
    folder = write_tiny_bert(tmp_path / "bert")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(error):
        EmbeddingModel.open(folder)


def test_what_is_no_embedding_model(tmp_path: Path, nano_directory: Any) -> None:
    with pytest.raises(ModelFormatError, match="cannot be used"):
        EmbeddingModel.open(nano_directory.path, Pooling.MEAN)
    with pytest.raises(ModelNotFoundError):
        EmbeddingModel.open(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFormatError, match="no directory"):
        EmbeddingModel.open(tmp_path / "file")


@pytest.mark.parametrize(
    ("config", "more", "limit"),
    [
        ({"model_type": "xlm-roberta", "max_position_embeddings": 34, "pad_token_id": 1}, {}, 32),
        ({}, {"sentence_bert_config.json": '{"max_seq_length": 16}'}, 16),
        ({}, {"tokenizer_config.json": '{"model_max_length": 1e30}'}, 32),
        ({}, {"tokenizer_config.json": '{"model_max_length": 20}'}, 20),
    ],
)
def test_the_length_of_a_text(
    tmp_path: Path, config: dict[str, Any], more: dict[str, str], limit: int
) -> None:
    folder = write_tiny_bert(tmp_path / "bert", **config)
    for name, content in more.items():
        (folder / name).write_text(content)
    assert EmbeddingModel.open(folder).max_tokens == limit
