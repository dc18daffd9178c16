"""Accuracy of contexts that were stored in fewer bits."""

from __future__ import annotations

from math import log
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.context import accuracy
from agentrt.bench.context.accuracy import (
    AS_IS,
    COMPRESSED,
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
    found = accuracy_of("half", halved, plain)
    assert found.bytes_share == 0.5
    assert found.perplexity == pytest.approx(2 * 2 ** (1 / 3))
    assert found.increase_pct == pytest.approx(100 * (2 ** (1 / 3) - 1))
    assert found.agreement == pytest.approx(2 / 3)
    assert found.standard_error_pct == pytest.approx(100 * log(2) / 4)  # log(2) / 2 and 0, over two texts
    figures = accuracy_figures([found, accuracy_of(COMPRESSED, plain, plain)])
    assert figures == {"compressed_ppl_increase_pct": 0.0}


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
def test_every_way_to_store_is_measured() -> None:
    texts = [RandomWords(seed).take(120) for seed in range(2)]
    lines: list[str] = []
    found = {each.name: each for each in measure_accuracy("nano", [*texts, "too short"], 128, lines.append)}
    assert list(found) == [AS_IS, *STATIC.values(), COMPRESSED]
    for same in (AS_IS, "8 bits"):  # 8 bits are those of the arena
        assert (found[same].increase_pct, found[same].agreement) == (0, 1)
    assert 1 == found[AS_IS].bytes_share < found["8 bits"].bytes_share < 1.001, "a header for each block"
    assert found["2 bits"].bytes_share < found["4 bits"].bytes_share < 1, "the first block stays whole"
    assert found["2 bits"].perplexity != found[AS_IS].perplexity, "what was stored is what is read"
    assert len(lines) == len(found)
    assert measure_accuracy("nano", ["too short"], 128, lines.append) == []
