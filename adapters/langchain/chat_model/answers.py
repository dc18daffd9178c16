"""Generations of the local runtime as LangChain results and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentrt.calls import CallFinished, TextDelta

from ..messages import answered_blocks, text_block

if TYPE_CHECKING:
    from agentrt.runtime import CallAnswered, Generation, GenerationEvent, LocalRuntime, TokenLogprobs


def is_call_answered(event: GenerationEvent) -> TypeGuard[CallAnswered]:
    """Whether the runtime has answered a tool call itself."""
    from agentrt.runtime import CallAnswered

    return isinstance(event, CallAnswered)


@dataclass(frozen=True)
class AnswerFormat:
    """How the answers to one request become messages."""

    runtime: LocalRuntime
    """What generates them."""
    in_blocks: bool = False
    """Whether the runtime may answer calls: the content is then a list of blocks, and calls are held back
    until their turn ends, when it is known who answers them."""
    stream_usage: bool = True
    """Whether the last chunk of a stream has the numbers of tokens."""

    def metadata(self, generation: Generation) -> dict[str, Any]:
        """Return the ``response_metadata`` of an answer."""
        timing = generation.timing
        return {
            "id": generation.id,
            "model_provider": "agentrt",
            "model_name": self.runtime.model_id,
            "finish_reason": generation.finish_reason,
            "timing": {
                "queued_s": timing.queued_s,
                "time_to_first_token_s": timing.time_to_first_token_s,
                "total_s": timing.total_s,
            },
        }

    def logprobs(self, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return log probabilities in OpenAI's format, which LangChain adds to the ``response_metadata``."""
        text_of = self.runtime.token_text
        return {"logprobs": {"content": [each.in_openai_form(text_of) for each in tokens]}}


def usage_metadata(generations: Sequence[Generation]) -> UsageMetadata:
    """Return the tokens of all answers to one request. They share one prompt, which counts once."""
    first = generations[0].usage
    output_tokens = sum(generation.usage.completion_tokens for generation in generations)
    return UsageMetadata(
        input_tokens=first.prompt_tokens,
        output_tokens=output_tokens,
        total_tokens=first.prompt_tokens + output_tokens,
        input_token_details=InputTokenDetails(cache_read=first.cached_tokens),
    )


def chat_result(generations: Sequence[Generation], format: AnswerFormat) -> ChatResult:
    """Return the generations of one request, in which no call was answered, as messages of one result.

    As with ``ChatOpenAI``, each message has the usage of the whole request.
    """
    usage = usage_metadata(generations)
    older = {  # OpenAI's names, which older callbacks read
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
    }
    return ChatResult(
        generations=[
            ChatGeneration(
                message=AIMessage(
                    content=generation.text,
                    tool_calls=[
                        {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
                        for call in generation.tool_calls
                    ],
                    usage_metadata=usage,
                    response_metadata=format.metadata(generation),
                ),
                generation_info=format.logprobs(generation.logprobs) if generation.logprobs else None,
            )
            for generation in generations
        ],
        llm_output={"token_usage": older, "model_name": format.runtime.model_id},
    )


def chat_result_in_blocks(events: Iterable[GenerationEvent], format: AnswerFormat) -> ChatResult:
    """Return the events of a whole answer as a result with one message: that of the streamed answer."""
    converter = ChunkConverter(format)
    return generate_from_stream(chunk for event in events for chunk in converter.chunks(event))


class ChunkConverter:
    """Converts the events of one answer into chunks."""

    def __init__(self, format: AnswerFormat) -> None:
        """``format`` is that of the request."""
        self._format = format
        self._empty: str | list[str | dict[str, Any]] = [] if format.in_blocks else ""
        self._answered = 0
        self._held: list[ChatGenerationChunk] = []

    def chunks(self, event: GenerationEvent) -> list[ChatGenerationChunk]:
        """Return the chunks for this event, and held ones if it ends their turn."""
        from agentrt.runtime import CallAnswered, Finished, LogprobsDelta

        in_blocks = self._format.in_blocks
        if isinstance(event, TextDelta):
            return [_chunk([text_block(event.text, self._answered)] if in_blocks else event.text)]
        if isinstance(event, LogprobsDelta):
            return [_chunk(self._empty, generation_info=self._format.logprobs(event.tokens))]
        if isinstance(event, CallFinished):
            call, arguments = event.call, json.dumps(event.call.arguments)
            piece = tool_call_chunk(name=call.name, args=arguments, id=call.id, index=event.index)
            chunk = _chunk(self._empty, tool_call_chunks=[piece])
            if not in_blocks:
                return [chunk]
            self._held.append(chunk)
        if isinstance(event, CallAnswered):
            self._held.clear()
            self._answered += 1
            return [_chunk(answered_blocks(event.call, event.output))]
        if isinstance(event, Finished):
            generation = event.generation
            last = _chunk(
                self._empty,
                usage_metadata=usage_metadata([generation]) if self._format.stream_usage else None,
                response_metadata=self._format.metadata(generation),
                chunk_position="last",
            )
            return [*self._held, last]
        return []


def _chunk(
    content: str | list[str | dict[str, Any]], generation_info: dict[str, Any] | None = None, **fields: Any
) -> ChatGenerationChunk:
    return ChatGenerationChunk(
        message=AIMessageChunk(content=content, **fields), generation_info=generation_info
    )
