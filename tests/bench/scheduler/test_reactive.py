"""The figures of a question beside a prefill and beside answers, from fixed times and from a real run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.bench.common.bench_model import BenchModel, RandomWords
from agentrt.bench.engines.side import Answer, Request
from agentrt.bench.scheduler.engines import Arrival, open_engines
from agentrt.bench.scheduler.reactive import (
    ANSWERS,
    Answered,
    measure_reactive,
    reactive_figures,
    reactive_table,
)

pytestmark = pytest.mark.bench


def served(first_ms: float, token_ms: float) -> Answer:
    """An answer of eleven tokens."""
    first = first_ms / 1e3
    return Answer(Request("", 11), 60, 11, first, first + 10 * token_ms / 1e3)


def answered(alone: tuple[float, float], prefill_ms: float, token_ms: float) -> Answered:
    return Answered(served(*alone), served(prefill_ms, 1.0), served(1.0, token_ms))


def test_figures_are_medians_of_the_ratios_within_a_repetition() -> None:
    # The machine is half as fast in the second repetition.
    found = {
        "agentrt": [answered((50, 10), 60, 12), answered((100, 20), 110, 24), answered((50, 10), 50, 15)],
        "openvino_genai": [answered((1, 1), first, 1) for first in (1200, 2200, 500)],
        "llama_cpp": [answered((1, 1), first, 1) for first in (600, 11000, 5000)],
    }
    assert reactive_figures(found) == pytest.approx(
        {
            "reactive_ttft_beside_prefill_ratio_vs_openvino_genai": 20,
            "reactive_ttft_beside_prefill_ratio_vs_llama_cpp": 100,
            "reactive_ttft_over_alone": 1.1,
            "reactive_ms_per_token_beside_8_ratio": 1.2,
        }
    )
    table = reactive_table(found, 2048)
    ours = dict(zip(table.columns, table.rows[0], strict=True))
    assert (ours["beside the prefill"], ours["beside the prefill min"], ours["beside the prefill max"]) == (
        *(60, 50),
        110,
    )
    assert [row[0] for row in table.rows] == list(found)


def test_a_question_comes_into_a_prefill_and_after_all_answers_have_begun() -> None:
    class Engine:
        def __init__(self) -> None:
            self.runs: list[list[Arrival]] = []

        def serve(self, arrivals: Sequence[Arrival]) -> tuple[Answer, ...]:
            self.runs.append(list(arrivals))
            return (Answer(Request("", 2), 60, 2, 0.1, 2.0),) * len(arrivals)

    engines: dict[str, Any] = {"agentrt": Engine(), "openvino_genai": Engine()}
    measure_reactive(engines, 10_000, 2, lambda line: None)
    first, _, alone, prefill, answers, *_ = engines["agentrt"].runs
    assert [(each.reactive, each.answer_tokens) for each in first] == [(False, 2)] * ANSWERS
    (question,) = alone
    assert (question.prompt_tokens, question.reactive, question.at_s) == (32, True, 0.0)
    background, beside = prefill
    assert (background.prompt_tokens, background.reactive, background.at_s) == (2048, False, 0.0)
    assert 0 < beside.at_s < 0.1
    assert (beside.prompt_tokens, beside.reactive) == (32, True)
    *eight, late = answers
    assert len(eight) == ANSWERS
    assert late.at_s == pytest.approx(2.4), "they have all begun by then"
    assert min(each.answer_tokens for each in eight) > 2 * late.answer_tokens, "and go on for longer"
    assert engines["openvino_genai"].runs == engines["agentrt"].runs


def test_both_sides_answer_a_question_beside_their_background() -> None:
    nano = BenchModel.of("nano", "nano", RandomWords)
    with open_engines(nano) as engines:
        figures, table = measure_reactive(engines, nano.context_length, 1, lambda line: None)
    assert min(figures.values()) > 0
    assert [row[0] for row in table.rows] == ["agentrt", "openvino_genai"]
    assert "1638 tokens" in table.title, "nano's context has no room for 2,048"
