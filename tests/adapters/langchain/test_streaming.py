"""What predictors see of a streamed LangChain answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from agentrt import DraftRequest, ToolCall
from agentrt.adapters.langchain import report_of, speculate
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.graphs import async_tool


class Reader:
    def __init__(self) -> None:
        self.read: list[ParserEvent] = []

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        async for event in request.answer.events():
            self.read.append(event)
            if isinstance(event, CallArgumentsDelta) and event.text.endswith("}"):
                yield ToolCall("look", {"q": "a"})


class Slow(ScriptedChat):
    """Streams chunks as given, one a second."""

    chunks: list[AIMessageChunk]

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk)
            await anyio.sleep(1)


def piece(name: str | None, args: str | None, index: int | None, id: str | None = None) -> AIMessageChunk:
    part: Any = {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk(content="", tool_call_chunks=[part])


@pytest.mark.parametrize("indices", [(0, 1), (1, 2), (None, None)])
def test_predictors_read_text_and_calls_numbered_from_0(indices: tuple[Any, Any]) -> None:
    first, second = indices
    reader = Reader()
    chunks = [
        AIMessageChunk(content="let me "),
        piece("look", '{"q": ', first, "1"),
        piece(None, '"a"}', first),
        piece("look", '{"q": "b"}', second, "2"),
        AIMessageChunk(content=""),
    ]
    model = speculate(Slow(chunks=chunks), reader).bind_tools([async_tool(1, [])])

    async def main() -> None:
        async for _ in model.astream("hi"):
            pass

    run_in_virtual_time(main)
    assert reader.read == [
        TextDelta("let me "),
        CallStarted(0, "look"),
        CallArgumentsDelta(0, '{"q": '),
        CallArgumentsDelta(0, '"a"}'),
        CallStarted(1, "look"),
        CallArgumentsDelta(1, '{"q": "b"}'),
    ]
    assert report_of(model).turns[0].drafts == 2
