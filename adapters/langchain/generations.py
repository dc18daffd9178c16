"""Generations of the local runtime as LangChain results and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta

from .messages import answered_blocks, text_block

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
    """Return a generation in which no call was answered as a result with one message."""
    message = AIMessage(
        content=generation.text,
        tool_calls=[
            {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
            for call in generation.tool_calls
        ],
        usage_metadata=_usage(generation),
        response_metadata=_metadata(generation),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def chat_result_in_blocks(events: Iterable[GenerationEvent]) -> ChatResult:
    """Return the events of a whole answer as a result with one message: that of the streamed answer."""
    converter = ChunkConverter(in_blocks=True)
    return generate_from_stream(chunk for event in events for chunk in converter.chunks(event))


class ChunkConverter:
    """Converts the events of one answer into chunks."""

    def __init__(self, *, in_blocks: bool) -> None:
        """``in_blocks`` is for answers in which the runtime may answer calls.

        Their content is a list of blocks, and calls are held back until their turn ends, when it is known who
        answers them.
        """
        self._in_blocks = in_blocks
        self._answered = 0
        self._held: list[ChatGenerationChunk] = []

    def chunks(self, event: GenerationEvent) -> list[ChatGenerationChunk]:
        """Return the chunks for this event, and held ones if it ends their turn."""
        if is_call_answered(event):
            self._held.clear()
            self._answered += 1
            return [_chunk(answered_blocks(event.call, event.output))]
        if isinstance(event, TextDelta):
            return [_chunk([text_block(event.text, self._answered)] if self._in_blocks else event.text)]
        if isinstance(event, (CallStarted, CallArgumentsDelta)):
            return []
        chunks = list(_last_chunks(event, [] if self._in_blocks else ""))
        if self._in_blocks and isinstance(event, CallFinished):
            self._held += chunks
            return []
        chunks, self._held = self._held + chunks, []
        return chunks


def _chunk(content: str | list[str | dict[str, Any]], **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **fields))


def _last_chunks(event: GenerationEvent, empty: str | list[Any]) -> Iterator[ChatGenerationChunk]:
    """Yield the chunk of a call or of the end of the answer; ``empty`` is its content."""
    from agentrt.runtime import Finished

    if isinstance(event, CallFinished):
        chunk = tool_call_chunk(
            name=event.call.name,
            args=json.dumps(event.call.arguments),
            id=event.call.id,
            index=event.index,
        )
        yield _chunk(empty, tool_call_chunks=[chunk])
    elif isinstance(event, Finished):
        yield _chunk(
            empty,
            usage_metadata=_usage(event.generation),
            response_metadata=_metadata(event.generation),
            chunk_position="last",
        )
