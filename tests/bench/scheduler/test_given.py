"""A given model: an agent's turns, and a question beside background work, from fixed times and for real."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agentrt.bench.common.bench_model import BenchModel, RandomWords
from agentrt.bench.common.estimates import median
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.engines.endpoint import Endpoint
from agentrt.bench.engines.side import Answer, Request
from agentrt.bench.scheduler import agent
from agentrt.bench.scheduler.agent import (
    AgentRun,
    agent_table,
    conversation,
    converse,
    has_agent_turns,
    measure_agent_turns,
    time_ratio,
)
from agentrt.bench.scheduler.engines import Arrival, open_engines
from agentrt.bench.scheduler.reactive import (
    ANSWERS,
    Answered,
    measure_reactive,
    reactive_figures,
    reactive_table,
)
from agentrt.errors import BenchPeerError

pytestmark = pytest.mark.bench


def run(*seconds: float) -> AgentRun:
    return AgentRun(tuple(Answer(Request("", 32), 2000, 32, each / 2, each) for each in seconds))


def test_a_ratio_is_within_a_repetition() -> None:
    beside = {
        "agentrt": [run(1, 1, 1), run(2, 2, 2), run(1, 1, 1)],
        "openvino_genai": [run(2, 2, 2), run(8, 8, 8), run(2, 1, 1)],
    }
    ratio = time_ratio(beside, "openvino_genai")
    assert (ratio.value, ratio.low, ratio.high, ratio.samples) == (0.5, 0.25, 0.75, 3)
    alone = {name: [run(1, 2, 3)] * 3 for name in beside}
    table = agent_table({"digest": beside, "none": alone})
    rows = {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    ours, theirs = rows["digest", "agentrt"], rows["digest", "openvino_genai"]
    assert (ours["total s"], ours["agentrt's by it"]) == (median([3, 6, 3]), None)
    assert (theirs["total s"], theirs["agentrt's by it"]) == (median([6, 24, 4]), ratio)
    of_turns = [rows["none", "agentrt"][f"first token s, turn {turn}"] for turn in (1, 2, 3)]
    assert of_turns == [median([0.5 * turn] * 3) for turn in (1, 2, 3)]


def test_a_conversation_goes_on_with_calls_of_its_tools_and_their_results() -> None:
    *calling, last = conversation(3)
    schemas = {each["function"]["name"]: each["function"]["parameters"] for each in last.tools or ()}
    assert len(calling) == 2
    for turn, following in zip(calling, [*calling[1:], last], strict=True):
        *before, called, result = following.messages
        assert before == turn.messages, "the turn before is a prefix"
        (call,) = called["tool_calls"]
        jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[call["function"]["name"]])
        assert result["tool_call_id"] == call["id"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert len({next(conversation(number)).messages[0]["content"][:20] for number in range(40)}) == 40


def test_a_model_without_tools_or_room_has_no_agent_turns(tiny: BenchModel) -> None:
    assert not has_agent_turns(tiny)
    nano = BenchModel.of("nano", "nano", RandomWords)
    assert has_agent_turns(nano)
    assert not has_agent_turns(dataclasses.replace(nano, context_length=512))


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(BenchPeerError, match=r"llama_cpp at http://127\.0\.0\.1:9 broke off an answer"):
        converse(Endpoint("llama_cpp", "http://127.0.0.1:9"), 0)


def test_all_servers_answer_the_same_conversations(tiny: BenchModel, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    little = {"CALL_TOKENS": 4, "ANSWER_TOKENS": 8, "_DIGESTED_TOKENS": 64, "_DIGEST_TOKENS": 6}
    for name, tokens in little.items():
        monkeypatch.setattr(agent, name, tokens)
    with open_engines(tiny) as engines:
        figures, table = measure_agent_turns(engines, 2, lambda line: None)
    assert figures.keys() == {
        f"agent_time_ratio_vs_openvino_genai_{each}" for each in ("beside_digest", "alone")
    }
    assert all(figure.has_interval and figure.value > 0 for figure in figures.values())
    names = ["agentrt", "openvino_genai", "openvino_genai_default_groups", "llama_cpp"]
    assert [row[:2] for row in table.rows] == [(each, name) for each in ("digest", "none") for name in names]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> BenchModel:
    """A model whose chat template takes no tools."""
    file: Path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 3, 64, 128, 2, 1, 512))
    return BenchModel.of("tiny", str(file), RandomWords)


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
        "openvino_genai_default_groups": [answered((1, 1), first, 1) for first in (1, 1, 1)],
        "llama_cpp": [answered((1, 1), first, 1) for first in (600, 11000, 5000)],
        "llama_cpp_native": [answered((1, 1), first, 1) for first in (3000, 550, 2500)],
    }
    figures = reactive_figures(found)
    assert {name: figure.value for name, figure in figures.items()} == pytest.approx(
        {
            "reactive_ttft_beside_prefill_ratio_vs_openvino_genai": 20,
            "reactive_ttft_beside_prefill_ratio_vs_llama_cpp": 50,  # of its build that is faster
            "reactive_ttft_over_alone": 1.1,
            "reactive_ms_per_token_beside_8_ratio": 1.2,
        }
    )
    table = reactive_table(found, 2048)
    ours = dict(zip(table.columns, table.rows[0], strict=True))
    assert ours["beside the prefill"] == median([60, 110, 50])
    assert [row[0] for row in table.rows] == list(found)


def test_a_question_comes_into_a_prefill_and_after_all_answers_have_begun() -> None:
    class Engine:
        def __init__(self) -> None:
            self.runs: list[list[Arrival]] = []

        def serve(self, arrivals: Sequence[Arrival]) -> tuple[Answer, ...]:
            self.runs.append(list(arrivals))
            return (Answer(Request("", 2), 60, 2, 0.1, 2.0),) * len(arrivals)

    engines: dict[str, Any] = {"agentrt": Engine(), "openvino_genai": Engine()}
    measure_reactive(engines, 10_000, 2, 1, lambda line: None)
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
        figures, table = measure_reactive(engines, nano.context_length, 1, 1, lambda line: None)
    assert min(figure.value for figure in figures.values()) > 0
    assert [row[0] for row in table.rows] == ["agentrt", "openvino_genai", "openvino_genai_default_groups"]
    assert "1638 tokens" in table.title, "nano's context has no room for 2,048"
