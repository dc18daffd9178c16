"""ChatOpenAI in front of an endpoint with a tool cache or that drafts calls (SpecTools, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai.chat_models.base import BaseChatOpenAI
from openai.types.chat import ChatCompletionChunk

from agentrt import ToolCall
from agentrt.adapting import Turn
from agentrt.toolcache import current_result_source

from ...openai.tool_call_reader import ChatCompletionReader
from ...stainless.tool_cache import TAKES_PREDICTED_CALLS, ToolCacheEndpoint, prediction_submitter
from ..messages import answered_blocks, in_turns, text_block
from .speculating_model import SpeculatingChatModel
from .turns import TurnSequence, TurnStarter

Convert = Callable[[Mapping[str, Any]], ChatGenerationChunk | None]

if TYPE_CHECKING:

    class _Base(SpeculatingChatModel, BaseChatOpenAI):
        """What the mixin is mixed with."""
else:
    _Base = SpeculatingChatModel


class ToolCacheChatOpenAI(_Base):
    """Mixin of a speculating ``ChatOpenAI`` that submits calls and results, and reads answered calls."""

    def _agentrt_turns(
        self, first: Turn, starter: TurnStarter, messages: Sequence[BaseMessage]
    ) -> TurnSequence:
        client = self.root_async_client if starter.method.is_async else self.root_client
        caches = starter.state.tool_cache
        endpoint = None if caches is None else caches.of(client)
        return ChatCompletionTurns(endpoint, client, first, starter, messages)

    def _convert_chunk_to_generation_chunk(self, chunk: Any, *args: Any, **kwargs: Any) -> Any:
        plain = super()._convert_chunk_to_generation_chunk

        def convert(shown: Mapping[str, Any]) -> Any:
            return plain(shown, *args, **kwargs)  # type: ignore[arg-type]

        turns = current_result_source()
        return turns.converted(chunk, convert) if isinstance(turns, ChatCompletionTurns) else convert(chunk)

    def _get_request_payload(self, input_: Any, **kwargs: Any) -> Any:
        return super()._get_request_payload(in_turns(self._convert_input(input_).to_messages()), **kwargs)


class ChatCompletionTurns(TurnSequence):
    """The turns of an answer streamed in chunks of chat completions.

    Chunks of a tool call are held back until the call's turn ends: only then it is known whether the
    endpoint answers the call or the agent has to make it. The content is a list of blocks from the first
    chunk on. Chunks of an endpoint that is known to have no tool cache are handed on at once, as they are.
    """

    def __init__(
        self,
        endpoint: ToolCacheEndpoint | None,
        client: Any,
        first: Turn,
        starter: TurnStarter,
        messages: Any,
    ) -> None:
        """``client`` submits results to ``endpoint``, if there is one; the rest are the base class's."""
        super().__init__(first, starter, messages)
        self._endpoint = endpoint
        self._client = client
        self._reader: ChatCompletionReader | None = None
        self._answered: list[tuple[ToolCall, str]] = []
        self._answered_turns = 0
        self._held: ChatGenerationChunk | None = None

    def converted(self, chunk: Mapping[str, Any], convert: Convert) -> ChatGenerationChunk | None:
        """Return what ``convert`` returns for the chunk; None if the chunk is held back.

        Calls answered by the endpoint become ``server_tool_call`` and ``server_tool_result`` blocks.
        """
        if chunk.get(TAKES_PREDICTED_CALLS):
            self.take_predictions(prediction_submitter(self._client, chunk["id"]))
        reader = self._reader_from(chunk)
        choice = next(iter(chunk.get("choices") or ()), None)
        if reader is None or choice is None or choice["delta"] is None:
            return convert(chunk)
        for _ in reader.read_event(ChatCompletionChunk.construct(**chunk)):
            pass  # the predictors are shown the converted chunks
        answered = reader.take_answered()
        if answered:
            self._answered += answered
            self._held = None
            blocks = [block for call, output in answered for block in answered_blocks(call, output)]
            return convert(_with_content(chunk, blocks))
        self._end_answered_turn()
        converted = _without_text(convert(self._in_blocks(chunk)))
        return self._release(converted, turn_ends=choice.get("finish_reason") is not None)

    def _reader_from(self, chunk: Mapping[str, Any]) -> ChatCompletionReader | None:
        """Read and submit results from the first chunk with an id on; None if there is no tool cache."""
        endpoint = self._endpoint
        if self._reader is None and chunk.get("id") and endpoint is not None and endpoint.may_have_cache:
            self._reader = ChatCompletionReader()
            self.take_results(endpoint.submitter(self._client, chunk["id"]))
        return self._reader

    def _end_answered_turn(self) -> None:
        if self._answered:
            self.answered(self._answered)
            self._answered = []
            self._answered_turns += 1

    def _in_blocks(self, chunk: Mapping[str, Any]) -> Mapping[str, Any]:
        text = chunk["choices"][0]["delta"].get("content")
        return _with_content(chunk, [text_block(text, self._answered_turns)]) if text else chunk

    def _release(self, chunk: ChatGenerationChunk | None, *, turn_ends: bool) -> ChatGenerationChunk | None:
        """Hold back chunks of calls, joined into one, until their turn ends."""
        if chunk is None:
            return None
        calls = isinstance(chunk.message, AIMessageChunk) and chunk.message.tool_call_chunks
        if self._held is not None and (calls or turn_ends):
            chunk, self._held = self._held + chunk, None
        if calls and not turn_ends:
            self._held = chunk
            return None
        return chunk


def _with_content(chunk: Mapping[str, Any], blocks: Sequence[str | dict[str, Any]]) -> Mapping[str, Any]:
    choice = chunk["choices"][0]
    return {**chunk, "choices": [{**choice, "delta": {**choice["delta"], "content": blocks}}]}


def _without_text(chunk: ChatGenerationChunk | None) -> ChatGenerationChunk | None:
    """Make the content of a chunk that has none a list: LangChain would keep an empty text among blocks."""
    if chunk is not None and chunk.message.content == "":
        chunk.message.content = []
    return chunk
