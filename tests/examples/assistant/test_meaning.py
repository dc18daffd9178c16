from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequestError
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.meaning import MeaningIndex, _passages
from agentrt.runtime import EmbeddingModel, Embeddings
from tests.runtime.pool.tiny_bert import write_tiny_bert

CONCEPTS = ({"car", "automobile", "brakes"}, {"roof", "attic", "ladder"}, {"soup", "tomato", "cook"})


class Concepts:
    """Embeds by which concepts the words of a text belong to."""

    max_tokens = 40

    def __init__(self) -> None:
        self.embedded: list[str] = []

    async def aembed(self, texts: Sequence[str], **_: Any) -> Embeddings:
        rows = []
        for text in texts:
            if "unembeddable" in text:
                raise InvalidRequestError("input", "it cannot be embedded.")
            words = set(re.findall(r"\w+", text.casefold()))
            row = np.array([*(len(words & each) for each in CONCEPTS), 0.1], np.float32)
            rows.append(row / np.linalg.norm(row))
        self.embedded += texts
        return Embeddings(rows, len(texts))


def open_concepts() -> EmbeddingModel:
    return cast(EmbeddingModel, Concepts())


def test_texts_are_found_by_what_they_mean() -> None:
    index = MeaningIndex(open_concepts())
    index.put(1, "We need a ladder for the attic.")
    index.put(2, "Cook it slowly.")
    index.put(3, f"{'Nothing to see here. ' * 20}\n\nNew brakes.")
    index.wait()
    assert index.search("an automobile", 1) == [3]
    assert index.search("the roof", 1) == [1]
    index.put(1, "Tomato")
    index.remove(2)
    index.wait()
    assert index.search("soup", 3)[0] == 1
    assert sorted(index.search("roof", 3)) == [1, 3]


def test_what_cannot_be_embedded_is_left_to_the_words(caplog: pytest.LogCaptureFixture) -> None:
    index = MeaningIndex(open_concepts())
    index.put(1, "unembeddable")
    index.put(2, "car")
    index.wait()
    assert index.search("automobile", 3) == [2]
    assert index.search("unembeddable", 3) == []
    assert "cannot be embedded" in caplog.text


@given(st.text(max_size=300), st.integers(9, 40))
def test_passages_have_the_whole_text_and_few_tokens(text: str, max_tokens: int) -> None:
    passages = list(_passages(text, max_tokens))
    assert "".join("".join(passages).split()) == "".join(text.split())
    assert all(len(passage.encode()) <= max(max_tokens - 8, 4) for passage in passages)


def test_words_and_meaning_count_alike(tmp_path: Path) -> None:
    (tmp_path / "garage.md").write_text("# Garage\n\nThe automobile gets new brakes.\n")
    (tmp_path / "advert.md").write_text("# Advert\n\nWin a car!\n")
    (tmp_path / "kitchen.md").write_text("# Kitchen\n\nTomato soup.\n")
    embedding = open_concepts()
    with contextlib.closing(PersonalData.open(tmp_path, embedding=embedding)) as data:
        meaning = data.notes._meaning
        assert meaning is not None
        meaning.wait()
        assert [note.title for note in data.notes.search("car", 2)] == ["Advert", "Garage"]
        (tmp_path / "garage.md").unlink()
        assert "Garage" not in [note.title for note in data.notes.search("car", 3)]


def test_an_embedding_model_finds_a_note(tmp_path: Path) -> None:
    embedding = EmbeddingModel.open(write_tiny_bert(tmp_path / "bert"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "trip.md").write_text(f"# Trip\n\n{'The weather in Oslo is rain. ' * 30}\n")
    with contextlib.closing(PersonalData.open(tmp_path / "notes", embedding=embedding)) as data:
        meaning = data.notes._meaning
        assert meaning is not None
        meaning.wait()
        assert [note.title for note in data.notes.search("umbrella")] == ["Trip"]
