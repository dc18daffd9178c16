"""Perplexities of one GGUF file in both engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.models.perplexity import FILE, compare_perplexities, load_texts
from agentrt.errors import WorkloadNotFoundError

pytest.importorskip("xllamacpp")


def test_texts_are_spread_over_the_records_that_have_one(tmp_path: Path) -> None:
    records = [{"id": n, **({"context": f"text {n}"} if n % 2 else {})} for n in range(20)]
    (tmp_path / FILE).write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    assert load_texts(tmp_path, 5) == [f"text {n}" for n in (1, 5, 9, 13, 17)]
    assert len(load_texts(tmp_path, 99)) == 10
    with pytest.raises(WorkloadNotFoundError):
        load_texts(tmp_path / "nowhere", 5)


@pytest.mark.bench
def test_both_engines_predict_the_same_tokens_alike(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("llama", 2, 64, 128, 2, 1, 512, 1024))
    texts = ["the rain in Spain stays mainly", "a quick brown fox"]
    found = compare_perplexities(str(file), str(tmp_path), texts, 12, 1, lambda line: None)
    assert found.tokens == 2 * 11
    # Nearly uniform over a vocabulary of 512; other tokens, or others before them, would differ by more.
    assert 400 < found.ours < 650
    assert found.ours == pytest.approx(found.llama_cpp, rel=2e-3)
