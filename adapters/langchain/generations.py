"""Generations of the local runtime as LangChain results and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta

from .messages import answered_blocks

if TYPE_CHECKING:
    from agentrt.runtime import CallAnswered, Generation, GenerationEvent


def is_call_answered(event: GenerationEvent) -> TypeGuard[CallAnswered]:
    """Whether the runtime has answered a tool call itself."""
    from agentrt.runtime import CallAnswered

    return isinstance(event, CallAnswered)


def _usage(generation: Generation) -> UsageMetadata:
    usage = generation.usage
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens),
    )


def _metadata(generation: Generation) -> dict[str, Any]:
    timing = generation.timing
    return {
        "id": generation.id,
        "model_provider": "agentrt",
        "finish_reason": generation.finish_reason,
        "timing": {
            "queued_s": timing.queued_s,
            "time_to_first_token_s": timing.time_to_first_token_s,
            "total_s": timing.total_s,
        },
    }


def chat_result(generation: Generation) -> ChatResult:
    """Return a whole generation as a result with one message; calls that were answered are content blocks."""
    blocks = [
        block
        for answered in generation.answered_calls
        for block in answered_blocks(answered.call, answered.output)
    ]
    message = AIMessage(
        content=[*blocks, {"type": "text", "text": generation.text}] if blocks else generation.text,
        tool_calls=[
            {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
            for call in generation.tool_calls
        ],
        usage_metadata=_usage(generation),
        response_metadata=_metadata(generation),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def generation_of(events: Sequence[GenerationEvent]) -> Generation:
    """Return the generation that a complete sequence of events ends with."""
    from agentrt.runtime import Finished

    assert isinstance(events[-1], Finished)
    return events[-1].generation


class ChunkConverter:
    """Converts the events of one answer into chunks."""

    def __init__(self, *, hold_calls: bool) -> None:
        """``hold_calls`` holds tool calls back until their turn ends, when it is known who answers them."""
        self._hold_calls = hold_calls
        self._held: list[ChatGenerationChunk] = []

    def chunks(self, event: GenerationEvent) -> list[ChatGenerationChunk]:
        """Return the chunks for this event, and held ones if it ends their turn."""
        chunks = list(_chunks(event))
        if self._hold_calls and isinstance(event, CallFinished):
            self._held += chunks
            return []
        if is_call_answered(event):
            self._held.clear()
        elif not isinstance(event, (TextDelta, CallStarted, CallArgumentsDelta)):
            chunks, self._held = self._held + chunks, []
        return chunks


def _chunks(event: GenerationEvent) -> Iterator[ChatGenerationChunk]:
    from agentrt.runtime import Finished

    if is_call_answered(event):
        yield ChatGenerationChunk(message=AIMessageChunk(content=answered_blocks(event.call, event.output)))
    if isinstance(event, TextDelta):
        yield ChatGenerationChunk(message=AIMessageChunk(content=event.text))
    elif isinstance(event, CallFinished):
        chunk = tool_call_chunk(
            name=event.call.name,
            args=json.dumps(event.call.arguments),
            id=event.call.id,
            index=event.index,
        )
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[chunk]))
    elif isinstance(event, Finished):
        last = AIMessageChunk(
            content="",
            usage_metadata=_usage(event.generation),
            response_metadata=_metadata(event.generation),
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)
