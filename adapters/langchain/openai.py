"""ChatOpenAI before an endpoint that has a tool cache (SpecTools, Algorithm 4)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai.chat_models.base import BaseChatOpenAI
from openai.types.chat import ChatCompletionChunk

from agentrt.calls import ToolCall
from agentrt.toolcache import current_result_source

from ..openai.answers import ChatReader
from ..openai.tool_cache import ToolCacheEndpoint
from .messages import answered_blocks, in_turns
from .tool_cache import AnswerTurns

Convert = Callable[[Mapping[str, Any]], ChatGenerationChunk | None]


def endpoint_of(model: Any) -> ToolCacheEndpoint | None:
    """Return what is to be known of the model's endpoint, or None if it is no ``ChatOpenAI``."""
    return ToolCacheEndpoint() if isinstance(model, BaseChatOpenAI) else None


class CompletionTurns(AnswerTurns):
    """The turns of an answer that comes in the chunks of chat completions.

    A call is kept back until its turn ends: only then it is known who makes it. From an endpoint that is
    known to have no tool cache, chunks pass as they are.
    """

    def __init__(self, endpoint: ToolCacheEndpoint, client: Any, *turns: Any) -> None:
        """``client`` is asked for the answer; ``turns`` is for :class:`AnswerTurns`."""
        super().__init__(*turns)
        self._endpoint = endpoint
        self._client = client
        self._reader: ChatReader | None = None
        self._answered: list[tuple[ToolCall, str]] = []
        self._answered_turns = 0
        self._held: ChatGenerationChunk | None = None

    def converted(self, chunk: Mapping[str, Any], convert: Convert) -> ChatGenerationChunk | None:
        """Return what ``convert`` makes of the chunk, or None if nothing of it can be told now."""
        if self._reader is None and chunk.get("id") and self._endpoint.may_have_cache:
            self._reader = ChatReader()
            self.take_results(self._endpoint.submitter(self._client, chunk["id"]))
        choice = next(iter(chunk.get("choices") or ()), None)
        if self._reader is None or choice is None or choice["delta"] is None:
            return convert(chunk)
        for _ in self._reader.events(ChatCompletionChunk.construct(**chunk)):
            pass  # predictors are shown what the model makes of it
        answered = self._reader.answered()
        if answered:
            self._answered += answered
            self._held = None
            return convert(_saying(chunk, [block for each in answered for block in answered_blocks(*each)]))
        if self._answered:
            self.answered(self._answered)
            self._answered = []
            self._answered_turns += 1
        text = choice["delta"].get("content")
        if text and self._answered_turns:
            # Beside other blocks a text is one, too. LangChain joins those of one index, and numbers others.
            index = f"lc_txt_{self._answered_turns}"
            chunk = _saying(chunk, [{"type": "text", "text": text, "index": index}])
        return self._told(convert(chunk), turn_ends=choice.get("finish_reason") is not None)

    def _told(self, made: ChatGenerationChunk | None, *, turn_ends: bool) -> ChatGenerationChunk | None:
        if made is None:
            return None
        calls = isinstance(made.message, AIMessageChunk) and made.message.tool_call_chunks
        if self._held is not None and (calls or turn_ends):
            made, self._held = self._held + made, None
        if calls and not turn_ends:
            self._held, made = made, None
        return made


def _saying(chunk: Mapping[str, Any], blocks: Sequence[str | dict[str, Any]]) -> Mapping[str, Any]:
    choice = chunk["choices"][0]
    return {**chunk, "choices": [{**choice, "delta": {**choice["delta"], "content": blocks}}]}


def completion_methods(base: Any) -> dict[str, Any]:
    """What a speculating subclass of a ``ChatOpenAI`` overrides to read such answers, and to send them."""

    @functools.wraps(base._convert_chunk_to_generation_chunk)
    def convert(self: Any, chunk: Any, *args: Any, **kwargs: Any) -> Any:
        def as_ever(shown: Mapping[str, Any]) -> Any:
            return base._convert_chunk_to_generation_chunk(self, shown, *args, **kwargs)

        turns = current_result_source()
        return turns.converted(chunk, as_ever) if isinstance(turns, CompletionTurns) else as_ever(chunk)

    @functools.wraps(base._get_request_payload)
    def payload(self: Any, input_: Any, **kwargs: Any) -> Any:
        return base._get_request_payload(self, in_turns(self._convert_input(input_).to_messages()), **kwargs)

    return {"_convert_chunk_to_generation_chunk": convert, "_get_request_payload": payload}
