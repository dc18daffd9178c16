"""Streamed answers beside a turn: handed on chunk by chunk, shown to the predictors, read for tool calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk

from agentrt.calls import CallArgumentsDelta, CallStarted, TextDelta

from .model_state import agenerate_within, generate_within
from .turns import TurnSequence


def stream_beside(turns: TurnSequence, send: Callable[[], Any]) -> Generator[ChatGenerationChunk, None, None]:
    """Yield the chunks of the answer that was requested ahead, else those of ``send()``.

    The turn is bound at the end, and its speculations are discarded if the stream is closed before.
    """
    with turns:
        observer = ChunkObserver(turns)
        with closing(turns.lookahead_answer_blocking()) as chunks:
            for chunk in chunks:
                observer.add(chunk)
                yield chunk
        if not observer.seen_any:
            with closing(generate_within(turns.generating, send())) as chunks:
                for chunk in chunks:
                    observer.add(chunk)
                    yield chunk
        turns.bind(observer.message())


async def astream_beside(
    turns: TurnSequence, send: Callable[[], Any]
) -> AsyncGenerator[ChatGenerationChunk, None]:
    """:func:`stream_beside` for ``_astream``."""
    with turns:
        observer = ChunkObserver(turns)
        async with aclosing(turns.lookahead_answer()) as chunks:
            async for chunk in chunks:
                observer.add(chunk)
                yield chunk
        if not observer.seen_any:
            async with aclosing(agenerate_within(turns.generating, send())) as chunks:
                async for chunk in chunks:
                    observer.add(chunk)
                    yield chunk
        turns.bind(observer.message())


class ChunkObserver:
    """Shows a turn each chunk of an answer, and collects the tool calls; text is not kept."""

    def __init__(self, turns: TurnSequence) -> None:
        """``turns`` are those of the answer."""
        self.seen_any = False
        self._turns = turns
        self._chunks: list[AIMessageChunk] = []
        self._positions: dict[int | None, int] = {}
        self._calls = 0

    def add(self, chunk: ChatGenerationChunk) -> None:
        """Take the next chunk."""
        self.seen_any = True
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            return
        if message.text:
            self._turns.observe(TextDelta(message.text))
        if message.tool_call_chunks:
            self._chunks.append(AIMessageChunk(content="", tool_call_chunks=message.tool_call_chunks))
            for piece in message.tool_call_chunks:
                self._observe(piece)

    def _observe(self, piece: ToolCallChunk) -> None:
        # Providers number content blocks in ways of their own; parser events count the calls from 0.
        position = self._positions.get(piece["index"])
        if position is None or (piece["index"] is None and piece["name"]):
            if not piece["name"]:
                return  # the rest of a call whose beginning had no name
            position = self._positions[piece["index"]] = self._calls
            self._calls += 1
            self._turns.observe(CallStarted(position, piece["name"]))
        if piece["args"]:
            self._turns.observe(CallArgumentsDelta(position, piece["args"]))

    def message(self) -> AIMessageChunk:
        """Return a message with the tool calls of all chunks so far."""
        return add_ai_message_chunks(AIMessageChunk(content=""), *self._chunks)
