"""An agent's turns on three servers: the figure from fixed times, the conversation, and a real run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from agentrt.bench.common.bench_model import BenchModel, RandomWords
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.engines.endpoint import Endpoint
from agentrt.bench.engines.side import Answer, Request
from agentrt.bench.scheduler.agent import (
    AgentRun,
    _ratios,
    agent_table,
    conversation,
    converse,
    has_agent_turns,
    measure_agent_turns,
)
from agentrt.bench.scheduler.engines import open_engines
from agentrt.errors import BenchPeerError

pytestmark = pytest.mark.bench


def run(*seconds: float) -> AgentRun:
    return AgentRun(tuple(Answer(Request("", 32), 2000, 32, each / 2, each) for each in seconds))


def test_the_figure_is_to_the_fastest_peer_of_each_repetition() -> None:
    beside = {
        "agentrt": [run(1, 2), run(2, 4), run(1, 2)],
        "openvino_genai": [run(2, 4), run(12, 12), run(4, 5)],
        "llama_cpp": [run(4, 5), run(6, 6), run(2, 2)],
    }
    alone = {name: [run(1, 1)] * 3 for name in beside}
    assert _ratios(beside) == [0.5, 0.5, 0.75]
    table = agent_table({"digest": beside, "none": alone})
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["digest", "agentrt"] == (3, 3, 6, 0.5)
    assert rows["none", "agentrt"] == (2, 2, 2, 1)
    assert rows["digest", "llama_cpp"] == (9, 4, 12, None)


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


def test_all_servers_answer_the_same_conversations(tiny: BenchModel) -> None:
    pytest.importorskip("xllamacpp")
    with open_engines(tiny) as engines:
        figures, table = measure_agent_turns(engines, 1, lambda line: None)
    assert figures["agent_turn_ratio_vs_best_peer"] > 0
    names = ["agentrt", "openvino_genai", "llama_cpp"]
    assert [row[:2] for row in table.rows] == [(each, name) for each in ("digest", "none") for name in names]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> BenchModel:
    """A model whose chat template takes no tools."""
    file: Path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 3, 64, 128, 2, 1, 512))
    return BenchModel.of("tiny", str(file), RandomWords)
