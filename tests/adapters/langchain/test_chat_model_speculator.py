"""A chat model as a draft."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agentrt import DraftRequest, ToolCall
from agentrt.adapters.langchain.chat_model_speculator import ChatModelSpeculator, tool_calls
from tests.adapters.doubles import ScriptedChat


def drafts(speculator: ChatModelSpeculator, samples: int) -> list[ToolCall]:
    async def collect() -> list[ToolCall]:
        return [call async for call in speculator.drafts(DraftRequest([], [], samples))]

    return asyncio.run(collect())


@pytest.mark.parametrize("use_async", [False, True])
def test_the_calls_of_every_sample_are_drafts(use_async: bool) -> None:
    threads: list[threading.Thread] = []
    model = ScriptedChat(
        script=[[("look", {"q": "a"}), ("look", {"q": "b"})]],
        gate=lambda turn: threads.append(threading.current_thread()),
    )
    speculator = ChatModelSpeculator(model, [HumanMessage("hi")], [], use_async=use_async)
    found = drafts(speculator, samples=3)
    assert [(call.name, call.arguments) for call in found] == [
        ("look", {"q": "a"}),
        ("look", {"q": "b"}),
    ] * 3
    assert model.asked == [0, 0, 0]
    assert threading.main_thread() not in threads
    assert len(threads) == (0 if use_async else 3)


def test_one_sample_that_fails_does_not_take_the_others_along() -> None:
    class Flaky(ScriptedChat):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            if not self.asked:
                self.asked.append(0)
                raise ConnectionError("refused")
            return await super()._agenerate(*args, **kwargs)

    found: list[ToolCall] = []

    async def collect() -> None:
        model = Flaky(script=[[("look", {})]])
        speculator = ChatModelSpeculator(model, [HumanMessage("hi")], [], use_async=True)
        async for call in speculator.drafts(DraftRequest([], [], 3)):
            found.append(call)

    with pytest.raises(ConnectionError):
        asyncio.run(collect())
    assert len(found) == 2


def test_only_well_formed_calls_of_an_answer_count() -> None:
    call = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}
    broken = {"name": "g", "args": "{", "id": "2", "error": "x", "type": "invalid_tool_call"}
    assert tool_calls(AIMessage("", tool_calls=[call], invalid_tool_calls=[broken])) == [
        ToolCall("f", {"x": 1}, "1")
    ]
    assert tool_calls(HumanMessage("hi")) == []
