"""Accuracy of contexts that were stored in fewer bits."""

from __future__ import annotations

from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.context import accuracy
from agentrt.bench.context.accuracy import (
    AS_IS,
    COMPRESSED,
    HELD_BACK,
    NEWS,
    STATIC,
    Predicted,
    accuracy_figures,
    accuracy_of,
    measure_accuracy,
)
from agentrt.runtime.kv.block_hashes import BlockHashes, PrefixSalts


def test_perplexities_are_compared_over_all_texts() -> None:
    plain = [Predicted((log(0.5), log(0.5)), (7, 8), 100), Predicted((log(0.5),), (9,), 50)]
    halved = [Predicted((log(0.25), log(0.5)), (7, 1), 50), Predicted((log(0.5),), (9,), 25)]
    found = accuracy_of("m", NEWS, "half", halved, plain)
    assert found.bytes_share == 0.5
    assert found.perplexity == pytest.approx(2 * 2 ** (1 / 3))
    assert found.increase_pct.value == pytest.approx(100 * (2 ** (1 / 3) - 1))
    assert found.increase_pct.low == pytest.approx(0), "of the second text alone"
    assert found.increase_pct.high == pytest.approx(100 * (2**0.5 - 1)), "of the first text alone"
    assert found.agreement_pct.value == pytest.approx(100 * 2 / 3)
    same = [accuracy_of(model, HELD_BACK, COMPRESSED, plain, plain) for model in "mn"]
    figures = accuracy_figures([found, *same], "m")
    assert {name: each.value for name, each in figures.items()} == {
        "compressed_ppl_increase_pct_held_back": 0
    }


def test_chunks_are_those_of_the_first_blocks_in_order() -> None:
    salts, tokens = PrefixSalts(), list(range(18))
    hashes = BlockHashes(salts.salt_for("text"), 4).compute(tokens, 4)
    stored = {hashes[3], hashes[1], hashes[0]}
    store = SimpleNamespace(
        locate=lambda app, block_hash: block_hash if app == "text" and block_hash in stored else None,
        read=lambda location: location,
    )
    scorer: Any = object.__new__(accuracy._Scorer)
    scorer._runtime = SimpleNamespace(_kept=SimpleNamespace(store=store, salts=salts))
    scorer._model = SimpleNamespace(layout=SimpleNamespace(block_tokens=4))
    assert scorer._stored("text", tokens) == (hashes[0], hashes[1]), "up to the first that is missing"
    assert scorer._stored("other text", tokens) == ()


@pytest.mark.bench
@pytest.mark.real_model
@pytest.mark.parametrize("model", ["nano", "tiny.gguf"])
def test_every_way_to_store_is_measured(model: str, tmp_path: Path) -> None:
    if model != "nano":  # whose weights, keys and values the runtime keeps in other precisions
        model = str(tmp_path / model)
        write_random_gguf(Path(model), ModelShape("qwen2", 2, 256, 256, 4, 2, 512))
    texts = [RandomWords(seed).take(120) for seed in range(2)]
    lines: list[str] = []
    kinds = {NEWS: [*texts, "too short"], HELD_BACK: ["too short"]}
    found = {each.stored: each for each in measure_accuracy(model, kinds, 128, lines.append)}
    assert list(found) == [AS_IS, *STATIC.values(), COMPRESSED]
    same = found[AS_IS]
    assert (same.increase_pct.value, same.agreement_pct.value, same.bytes_share) == (0, 100, 1)
    assert found["2 bits"].bytes_share < found["4 bits"].bytes_share < 1, "the first block stays whole"
    assert found["2 bits"].perplexity != same.perplexity, "what was stored is what is read"
    assert len(lines) == len(found)
