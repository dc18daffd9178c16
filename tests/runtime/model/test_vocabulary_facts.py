from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.errors import ModelFormatError
from agentrt.runtime.files.checksums import CHECKSUMS
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.model.vocabulary_facts import FACTS, VocabularyFacts

VOCABULARY = 512
BEHAVIOUR = ("_hidden", "_longest_token", "_word_end", "token_bytes", "text_prefix", "fingerprint")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    folder = tmp_path_factory.mktemp("converted")
    write_random_gguf(folder / "model.gguf", ModelShape("qwen2", 1, 64, 64, 2, 1, VOCABULARY, 1024))
    return open_model_directory(folder / "model.gguf", folder / "cache")


@pytest.fixture
def copied(converted: ModelDirectory, tmp_path: Path) -> ModelDirectory:
    """A copy whose files may be changed: it has no digests of them."""
    ignored = shutil.ignore_patterns(CHECKSUMS)
    return open_model_directory(shutil.copytree(converted.path, tmp_path / "model", ignore=ignored))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of models whose vocabulary was asked for."""
    sizes: list[int] = []
    find = VocabularyFacts.find

    def noted(tokenizer: Any, size: int, decoded: Any) -> VocabularyFacts:
        sizes.append(size)
        return find(tokenizer, size, decoded)

    monkeypatch.setattr(VocabularyFacts, "find", noted)
    return sizes


def test_a_tokenizer_is_the_same_with_stored_facts(copied: ModelDirectory, found: list[int]) -> None:
    stored = Tokenizer(copied, VOCABULARY)
    assert not found
    (copied.path / FACTS).unlink()
    asked = Tokenizer(copied, VOCABULARY)
    assert found == [VOCABULARY]
    for name in BEHAVIOUR:
        assert getattr(stored, name) == getattr(asked, name), name


@pytest.mark.parametrize("changed", [{"size": VOCABULARY + 64}, {"markup": ["<call>"]}])
def test_facts_of_another_size_or_other_markup_are_not_used(
    copied: ModelDirectory, found: list[int], changed: dict[str, Any]
) -> None:
    stated = json.loads((copied.path / FACTS).read_text())
    (copied.path / FACTS).write_text(json.dumps({**stated, **changed}))
    Tokenizer(copied, VOCABULARY)
    assert found == [VOCABULARY]


def test_facts_are_read_as_they_were_stored(converted: ModelDirectory, tmp_path: Path) -> None:
    facts = VocabularyFacts.stored(converted.path, VOCABULARY)
    assert facts is not None
    facts.store(tmp_path)
    again = VocabularyFacts.stored(tmp_path, VOCABULARY)
    assert again is not None
    assert asdict(again) == asdict(facts)


def test_damaged_facts_are_refused(converted: ModelDirectory, tmp_path: Path) -> None:
    copied = shutil.copytree(converted.path, tmp_path / "model")
    (copied / FACTS).write_text("{")
    with pytest.raises(ModelFormatError, match=rf"{FACTS} is damaged"):
        open_model_directory(copied)
    (copied / CHECKSUMS).unlink()
    with pytest.raises(ModelFormatError, match=rf"{FACTS} cannot be read as JSON"):
        Tokenizer(open_model_directory(copied), VOCABULARY)
