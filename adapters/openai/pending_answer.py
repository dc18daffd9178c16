"""A model request of a speculating OpenAI client while its answer is under way."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

import openai
from openai import AsyncStream, Stream

from agentrt import ToolCall
from agentrt.adapting import Turn, offered_tools
from agentrt.dialects import CHAT_COMPLETIONS, MODEL_PATHS

from .client_state import ClientState
from .openai_model_request import OpenAIModelRequest, Parser, draft_request, is_unread_response, parsed
from .request_body import answered_ids, body_after_calls
from .tool_cache import TAKES_PREDICTED_CALLS, prediction_submitter
from .tool_call_reader import ChatCompletionReader, ResponseReader, ToolCallReader


@dataclass(slots=True)
class PendingAnswer:
    """The turn beside one model request, and the reader of its answer.

    When the endpoint answers calls itself in a stream, the next turn starts within the same answer.
    """

    state: ClientState
    client: Any
    path: str
    body: Mapping[str, Any]
    turn: Turn
    reader: ToolCallReader
    parser: Parser | None = None
    """The ``post_parser`` that the answer goes through."""
    response_id: str | None = None
    _takes_predicted_calls: bool = False

    def lookahead_result_blocking(self) -> Any:
        """Return the result of the request that was sent ahead; None if there is none or it has failed."""
        pieces = self.turn.lookahead_answer_blocking()
        response = next(pieces, None)
        if response is None:
            return None
        if not response.streamed:
            pieces.close()
        result = response.parsed_by(self.parser)
        self.take_result(result, pieces)
        return result

    async def lookahead_result(self) -> Any:
        """:meth:`lookahead_result_blocking` for the async client."""
        pieces = self.turn.lookahead_answer()
        response = await anext(pieces, None)
        if response is None:
            return None
        if not response.streamed:
            await pieces.aclose()
        result = response.parsed_by(self.parser)
        self.take_result(result, pieces)
        return result

    def take_result(self, result: Any, events: Any = None) -> None:
        """Take what the client returns to the user, and bind the turn: now, or when the stream ends.

        ``events`` replaces the stream's own generator of events.
        """
        result = parsed(result)
        if isinstance(result, (Stream, AsyncStream)):
            weakref.finalize(result, self.turn.discard)  # a stream that is never read
            read: Any = self._read if isinstance(result, Stream) else self._read_async
            result._iterator = read(result._iterator if events is None else events)
            return
        with self.turn, self.turn.reading():
            calls = self.reader.read_whole(result)
            if calls is not None:
                self.turn.bind(calls)

    def _read(self, events: Generator[Any, None, None]) -> Generator[Any, None, None]:
        try:
            with closing(events):
                for event in events:
                    self._observe(event)
                    yield event
        finally:
            self.turn.discard()

    async def _read_async(self, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        try:
            async with aclosing(events):
                async for event in events:
                    self._observe(event)
                    yield event
        finally:
            self.turn.discard()

    def _observe(self, event: Any) -> None:
        with self.turn.reading():
            if self.response_id is None:
                self.response_id = getattr(getattr(event, "response", event), "id", None)
                self._takes_predicted_calls = getattr(event, TAKES_PREDICTED_CALLS, False) is True
                self._submit_results()
            for seen in self.reader.read_event(event):
                self.turn.observe(seen)
            answered = self.reader.take_answered()
            if answered:
                self._start_next_turn(answered)
            # Before the event is handed on: with the last one the user may make the calls at once.
            calls = self.reader.take_complete()
            if calls is not None:
                self.turn.bind(calls)

    def _submit_results(self) -> None:
        endpoint = self.state.tool_cache
        if endpoint is not None and self.response_id is not None:
            self.turn.on_finished(endpoint.submitter(self.client, self.response_id))
        if self.response_id is not None and self._takes_predicted_calls:
            self.turn.on_predicted(prediction_submitter(self.client, self.response_id))

    def _start_next_turn(self, answered: Sequence[tuple[ToolCall, str]]) -> None:
        """End the turn, whose calls the endpoint has answered, and start one on the longer history."""
        self.turn.bind_answered([call for call, _ in answered])
        self.body = body_after_calls(self.path, self.body, answered)
        self.turn = _start_turn(self.state, self.client, self.path, self.body)
        self._submit_results()


def start_request(
    client: Any, send: Any, path: str, body: Any, options: Mapping[str, Any]
) -> PendingAnswer | None:
    """Start a turn beside a request.

    ``send`` is ``post`` of the user's client. Returns None if there is nothing to speculate on.
    """
    state: ClientState | None = getattr(client, "_agentrt_state", None)
    if state is None or path not in MODEL_PATHS or not isinstance(body, dict):
        return None
    offers_none = not body.get("tools") or body.get("tool_choice") == "none"
    if not state.toolbox.tools or (offers_none and not state.reads_calls):
        return None
    reader = ChatCompletionReader() if path == CHAT_COMPLETIONS else ResponseReader(state.history, body)
    # A response that the client leaves to the user to read is the answer to one request only.
    sent = None if is_unread_response(options) else OpenAIModelRequest(client, send, path, body, options)
    turn = _start_turn(state, client, path, body, sent)
    return PendingAnswer(state, client, path, body, turn, reader, None if sent is None else sent.parser)


def _start_turn(
    state: ClientState,
    client: Any,
    path: str,
    body: Mapping[str, Any],
    sent: OpenAIModelRequest | None = None,
) -> Turn:
    """Start a turn beside a request, ``sent`` unless none can be sent ahead after it."""
    any_tool = state.reads_calls  # code may call all of them
    return state.turns.start(
        functools.partial(draft_request, state, path, body),
        tools=state.toolbox.tools,
        offered=None if any_tool else offered_tools(body["tools"], body.get("tool_choice")),
        answered=answered_ids(path, body),
        blocking=isinstance(client, openai.OpenAI),
        ahead=lambda: sent,
    )
