"""A model request of a speculating client while its answer is under way."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

from agentrt.adapting import Turn, offered_tools

from .client_state import ClientState
from .model_request import ClientModelRequest
from .responses import aparsed, is_async, is_stream, parsed
from .tool_cache import TAKES_PREDICTED_CALLS, prediction_submitter
from .wire import Answered, AnswerReader


@dataclass(slots=True)
class PendingAnswer:
    """The turn beside one model request, and the reader of its answer.

    When the endpoint answers calls itself in a stream, the next turn starts within the same answer.
    """

    request: ClientModelRequest
    turn: Turn
    reader: AnswerReader
    _response_id: str | None = None
    _takes_predicted_calls: bool = False

    def lookahead_result_blocking(self) -> Any:
        """Return the result of the request that was sent ahead; None if there is none or it has failed."""
        pieces = self.turn.lookahead_answer_blocking()
        response = next(pieces, None)
        if response is None:
            return None
        if response.stream is None:
            pieces.close()
        result = response.parsed_by(self.request.parser)
        self.take_result(parsed(result) if self.request.is_raw else result, pieces)
        return result

    async def lookahead_result(self) -> Any:
        """:meth:`lookahead_result_blocking` for the async client."""
        pieces = self.turn.lookahead_answer()
        response = await anext(pieces, None)
        if response is None:
            return None
        if response.stream is None:
            await pieces.aclose()
        result = response.parsed_by(self.request.parser)
        self.take_result(await aparsed(result) if self.request.is_raw else result, pieces)
        return result

    def take_result(self, result: Any, events: Any = None) -> None:
        """Take what the user gets, parsed, and bind the turn: now, or when the stream ends.

        ``events`` replaces the stream's own generator of events.
        """
        if is_stream(result):
            weakref.finalize(result, self.turn.discard)  # a stream that is never read
            read: Any = self._read_async if isinstance(result, AsyncIterator) else self._read
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
            for seen in self.reader.read_event(event):
                self.turn.observe(seen)
            if self._response_id is None and self.reader.response_id is not None:
                self._response_id = self.reader.response_id
                self._takes_predicted_calls = getattr(event, TAKES_PREDICTED_CALLS, False) is True
                self._submit_results()
            answered = self.reader.take_answered()
            if answered:
                self._start_next_turn(answered)
            # Before the event is handed on: with the last one the user may make the calls at once.
            calls = self.reader.take_complete()
            if calls is not None:
                self.turn.bind(calls)

    def _submit_results(self) -> None:
        client, caches = self.request.client, self.request.state.tool_cache
        if caches is not None and self._response_id is not None:
            self.turn.on_finished(caches.of(client).submitter(client, self._response_id))
        if self._response_id is not None and self._takes_predicted_calls:
            self.turn.on_predicted(prediction_submitter(client, self._response_id))

    def _start_next_turn(self, answered: Answered) -> None:
        """End the turn, whose calls the endpoint has answered, and start one on the longer history."""
        self.turn.bind_answered([call for call, _ in answered])
        self.request = self.request.after_calls(answered)
        self.turn = _start_turn(self.request, None)
        self._submit_results()


def start_request(
    client: Any, send: Any, path: str, body: Any, options: Mapping[str, Any]
) -> PendingAnswer | None:
    """Start a turn beside a request whose body can be read more than once.

    ``send`` is ``post`` of the user's client. Returns None if there is nothing to speculate on.
    """
    state: ClientState | None = getattr(client, "_agentrt_state", None)
    if state is None or path not in state.wire.paths or not isinstance(body, Mapping):
        return None
    fields = state.wire.fields(body)
    if _offered(fields) == set() and not state.reads_calls:
        return None
    request = ClientModelRequest(client, send, path, body, fields, options)
    turn = _start_turn(request, None if request.is_unread else request)
    return PendingAnswer(request, turn, state.wire.reader(path, fields))


def _start_turn(request: ClientModelRequest, sent: ClientModelRequest | None) -> Turn:
    """Start a turn beside a request, ``sent`` unless none can be sent ahead after it."""
    state = request.state
    return state.turns.start(
        request.request,
        tools=state.toolbox.tools,
        offered=None if state.reads_calls else _offered(request.fields),  # code may call all of them
        answered=state.wire.answered_ids(request.path, request.fields),
        blocking=not is_async(request.client),
        ahead=lambda: sent,
    )


def _offered(fields: Mapping[str, Any]) -> set[str] | None:
    return offered_tools(fields.get("tools") or (), fields.get("tool_choice"))
