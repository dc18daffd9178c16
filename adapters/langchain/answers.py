"""A streamed LangChain answer, read along: for the predictors while it comes, for its calls at the end."""

from __future__ import annotations

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk

from agentrt.calls import CallArgumentsDelta, CallStarted, TextDelta
from agentrt.turns.turn import Turn

from .tool_cache import AnswerTurns


class StreamedAnswer:
    """Shows a turn each chunk of the answer, and gathers the tool calls and nothing else of it."""

    def __init__(self, turn: Turn | AnswerTurns) -> None:
        """Nothing has come yet."""
        self._turn = turn
        self._chunks: list[AIMessageChunk] = []
        self._places: dict[int | None, int] = {}
        self._begun = 0

    def add(self, chunk: ChatGenerationChunk) -> None:
        """Take the next chunk."""
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            return
        if message.text:
            self._turn.observe(TextDelta(message.text))
        if message.tool_call_chunks:
            self._chunks.append(AIMessageChunk(content="", tool_call_chunks=message.tool_call_chunks))
            for piece in message.tool_call_chunks:
                self._observe(piece)

    def _observe(self, piece: ToolCallChunk) -> None:
        # Providers number the blocks of an answer as they like; predictors count its calls from 0.
        place = self._places.get(piece["index"])
        if place is None or (piece["index"] is None and piece["name"]):
            if not piece["name"]:
                return  # the rest of a call whose beginning had no name
            place = self._places[piece["index"]] = self._begun
            self._begun += 1
            self._turn.observe(CallStarted(place, piece["name"]))
        if piece["args"]:
            self._turn.observe(CallArgumentsDelta(place, piece["args"]))

    def message(self) -> AIMessageChunk:
        """Return a message with the answer's calls."""
        return add_ai_message_chunks(AIMessageChunk(content=""), *self._chunks)
