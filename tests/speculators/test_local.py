"""The local speculator with the real nano draft model."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.errors import ConfigurationError, ModelFormatError, ModelNotFoundError, PromptTooLongError
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator, Speculator

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Current weather in a city.", "parameters": CITY},
    }
]
MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the weather in Oslo?"},
]


@pytest.fixture(scope="module")
def speculator() -> LocalSpeculator:
    return LocalSpeculator(DRAFT_DIRECTORY, threads=1)


def drafts(speculator: LocalSpeculator, messages: list[Any], samples: int = 1) -> list[ToolCall]:
    async def collect() -> list[ToolCall]:
        return [call async for call in speculator.drafts(DraftRequest(messages, TOOLS, samples))]

    return asyncio.run(collect())


def test_it_guesses_the_call(speculator: LocalSpeculator) -> None:
    assert isinstance(speculator, Speculator)
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_the_greedy_guess_is_among_any_number_of_samples(speculator: LocalSpeculator) -> None:
    (greedy,) = drafts(speculator, MESSAGES)
    sampled = drafts(speculator, MESSAGES, samples=5)
    assert greedy in sampled
    assert 1 <= len(sampled) <= 5


def test_its_own_number_of_samples_wins() -> None:
    own = LocalSpeculator(DRAFT_DIRECTORY, samples=4, temperature=0.01, threads=1)
    assert len(drafts(own, MESSAGES, samples=1)) == 4


def test_a_history_with_calls_and_content_parts_is_understood(speculator: LocalSpeculator) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": json.dumps({"city": "Oslo"})},
    }
    result = [{"type": "text", "text": '{"city": "Oslo", "temperature": 12, "sky": "light rain"}'}]
    history: list[Any] = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]
    assert drafts(speculator, history) == []  # it expects an answer now, not a call


def test_it_stops_when_the_main_model_has_answered(
    speculator: LocalSpeculator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped, go_on = threading.Event(), threading.Event()
    steps: list[int] = []
    pipeline = speculator._pipeline

    class Slow:
        """The pipeline, held up in its first step until it is told to go on."""

        def __getattr__(self, name: str) -> Any:
            return getattr(pipeline, name)

        def step(self) -> None:
            steps.append(1)
            stepped.set()
            assert go_on.wait(20)
            pipeline.step()

    monkeypatch.setattr(speculator, "_pipeline", Slow())

    @speculable
    def get_weather(city: str) -> str:
        return city

    with SpeculationSession([get_weather], [speculator], samples=3) as session:
        with session.turn(MESSAGES, TOOLS) as turn:
            assert stepped.wait(20)
            turn.bind([])
        monkeypatch.undo()
    while not speculator._busy.acquire(timeout=0.05):  # the draft's thread is done once this is free
        go_on.set()
    speculator._busy.release()
    assert len(steps) <= 2
    assert not pipeline.has_non_finished_requests()
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]
    assert session.report().turns[0].drafts == 0


def test_turns_at_the_same_time_wait_for_each_other(speculator: LocalSpeculator) -> None:
    async def one() -> list[ToolCall]:
        return [call async for call in speculator.drafts(DraftRequest(MESSAGES, TOOLS))]

    async def main() -> list[list[ToolCall]]:
        return await asyncio.gather(*(one() for _ in range(4)))

    assert asyncio.run(main()) == [[ToolCall("get_weather", {"city": "Oslo"})]] * 4


def test_a_prompt_beyond_the_context_is_not_computed(speculator: LocalSpeculator) -> None:
    long = [*MESSAGES[:1], {"role": "user", "content": "word " * 20_000}]
    with pytest.raises(PromptTooLongError, match="2048"):
        drafts(speculator, long)
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="openvino_model"):
        LocalSpeculator(tmp_path)
    (tmp_path / "openvino_model.xml").write_text("<net/>")
    (tmp_path / "openvino_model.bin").write_bytes(b"")
    with pytest.raises(ModelFormatError, match="Export the model again"):
        LocalSpeculator(tmp_path)
    with pytest.raises(ConfigurationError, match="samples"):
        LocalSpeculator(DRAFT_DIRECTORY, samples=0)
