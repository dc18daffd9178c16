"""The local speculator with the real nano draft model."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentrt import DraftRequest, ToolCall
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


class HeldPipeline:
    """The pipeline, held up in its first step until it is told to go on; it counts."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.stepping, self.go_on = threading.Event(), threading.Event()
        self.steps = self.requests = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pipeline, name)

    def add_request(self, *args: Any) -> Any:
        self.requests += 1
        return self.pipeline.add_request(*args)

    def step(self) -> None:
        self.steps += 1
        self.stepping.set()
        assert self.go_on.wait(20)
        self.pipeline.step()


@pytest.fixture
def held(speculator: LocalSpeculator, monkeypatch: pytest.MonkeyPatch) -> HeldPipeline:
    pipeline = HeldPipeline(speculator._pipeline)
    monkeypatch.setattr(speculator, "_pipeline", pipeline)
    return pipeline


async def abandon(speculator: LocalSpeculator, once: threading.Event) -> None:
    """Ask for drafts, and cancel that once the event is set."""

    async def ask() -> None:
        async for _ in speculator.drafts(DraftRequest(MESSAGES, TOOLS, 3)):
            raise AssertionError("there can be no draft yet")

    task = asyncio.create_task(ask())
    await asyncio.to_thread(once.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def join_drafts(speculator: LocalSpeculator) -> None:
    for thread in threading.enumerate():
        if thread.name == f"agentrt {speculator.name}":
            thread.join(20)


def test_it_stops_within_a_token_of_being_cancelled(speculator: LocalSpeculator, held: HeldPipeline) -> None:
    asyncio.run(abandon(speculator, held.stepping))
    held.go_on.set()
    join_drafts(speculator)
    assert held.requests == 2
    assert held.steps == 2  # the one it was in, and one that frees what the samples held
    assert not held.has_non_finished_requests()
    assert drafts(speculator, MESSAGES) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_a_draft_that_is_cancelled_while_it_waits_computes_nothing(
    speculator: LocalSpeculator, held: HeldPipeline
) -> None:
    at_once = threading.Event()
    at_once.set()
    with speculator._busy:
        asyncio.run(abandon(speculator, at_once))
    join_drafts(speculator)
    assert (held.requests, held.steps) == (0, 0)


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
