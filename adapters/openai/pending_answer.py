"""A model request of a speculating OpenAI client while its answer is under way."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncStream, Stream

from agentrt.calls import ToolCall
from agentrt.concurrency.hosts import Host
from agentrt.dialects.dialect import CHAT_COMPLETIONS, MODEL_PATHS
from agentrt.lookahead.ahead import AheadRequest
from agentrt.tools.offered import offered_tools
from agentrt.tools.restrictions import Restrictions, not_offered
from agentrt.tools.scopes import current_scope
from agentrt.turns.turn import Turn

from .client_state import ClientState
from .lookahead_response import is_unread_response, parsed
from .openai_model_request import OpenAIModelRequest, draft_request
from .request_body import answered_ids, body_after_calls
from .tool_call_reader import ChatCompletionReader, ResponseReader, ToolCallReader

logger = logging.getLogger("agentrt")


@dataclass(slots=True)
class PendingAnswer:
    """The turn beside one model request, and the reader of its answer.

    When the endpoint answers calls itself in a stream, the next turn starts within the same answer.
    """

    state: ClientState
    client: Any
    path: str
    body: Mapping[str, Any]
    host: Host
    turn: Turn
    reader: ToolCallReader
    request: OpenAIModelRequest | None = None
    """The request; None if none are sent ahead after it."""
    ahead: AheadRequest[Turn] | None = None
    """The equal request that was sent ahead, if there is one."""
    response_id: str | None = None

    def lookahead_result_blocking(self) -> Any:
        """Return the result of the request that was sent ahead; None if there is none or it has failed."""
        if self.request is None or self.ahead is None:
            return None
        pieces = self.ahead.answer_blocking()
        try:
            response = next(pieces)
        except Exception:  # noqa: BLE001 - the real request raises its own error, if it fails as well
            return None
        if not response.streamed:
            pieces.close()
        result = response.parsed_by(self.request.parser)
        self.take_result(result, pieces)
        return result

    async def lookahead_result(self) -> Any:
        """:meth:`lookahead_result_blocking` for the async client."""
        if self.request is None or self.ahead is None:
            return None
        pieces = self.ahead.answer()
        try:
            response = await anext(pieces)
        except Exception:  # noqa: BLE001 - as above
            return None
        if not response.streamed:
            await pieces.aclose()
        result = response.parsed_by(self.request.parser)
        self.take_result(result, pieces)
        return result

    def take_result(self, result: Any, events: Any = None) -> None:
        """Take what the client returns to the user, and bind the turn: now, or when the stream ends.

        ``events`` replaces the stream's own generator of events.
        """
        result = parsed(result)
        if isinstance(result, (Stream, AsyncStream)):
            weakref.finalize(result, self._abandon)  # a stream that is never read
            read: Any = self._read if isinstance(result, Stream) else self._read_async
            result._iterator = read(result._iterator if events is None else events)
            return
        with self.turn, self._discarding_on_error():
            calls = self.reader.read_whole(result)
            if calls is not None:
                self._bind(calls)

    def _bind(self, calls: Sequence[ToolCall]) -> None:
        self.turn.bind(calls, generation_s=None if self.ahead is None else self.ahead.generation_s)

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
        with self._discarding_on_error():
            if self.response_id is None:
                self.response_id = getattr(getattr(event, "response", event), "id", None)
                self._submit_results()
            for seen in self.reader.read_event(event):
                self.turn.observe(seen)
            answered = self.reader.take_answered()
            if answered:
                self._start_next_turn(answered)
            # Before the event is handed on: with the last one the user may make the calls at once.
            calls = self.reader.take_complete()
            if calls is not None:
                self._bind(calls)

    def _abandon(self) -> None:
        self.turn.discard()
        if self.ahead is not None:
            self.ahead.stop()

    def _submit_results(self) -> None:
        endpoint = self.state.tool_cache
        if endpoint is not None and self.response_id is not None:
            self.turn.on_finished(endpoint.submitter(self.client, self.response_id))

    def _start_next_turn(self, answered: Sequence[tuple[ToolCall, str]]) -> None:
        """End the turn, whose calls the endpoint has answered, and start one on the longer history."""
        self.turn.bind_answered([call for call, _ in answered])
        self.body = body_after_calls(self.path, self.body, answered)
        self.turn = _start_turn(self.state, self.path, self.body, self.host)
        self.ahead = None
        self._submit_results()

    @contextmanager
    def _discarding_on_error(self) -> Iterator[None]:
        """Discard the turn if the answer cannot be read; the user gets the answer as it is."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the client does not validate what servers send
            self.turn.discard()
            logger.warning("an answer could not be read for its tool calls: %s", type(error).__name__)


def start_request(
    client: Any, send: Any, path: str, body: Any, options: Mapping[str, Any], host: Host
) -> PendingAnswer | None:
    """Start a turn beside a request, or take over that of an equal request that was sent ahead.

    ``send`` is ``post`` of the user's client. Returns None if there is nothing to speculate on.
    """
    state: ClientState | None = getattr(client, "_agentrt_state", None)
    if state is None or path not in MODEL_PATHS or not isinstance(body, dict):
        return None
    offers_none = not body.get("tools") or body.get("tool_choice") == "none"
    if not state.toolbox.tools or (offers_none and not state.reads_calls):
        return None
    reader = ChatCompletionReader() if path == CHAT_COMPLETIONS else ResponseReader(state.history, body)
    table = state.shared.ahead
    request = _model_request(client, send, path, body, options) if table.enabled else None
    ahead = None
    if table.enabled:
        ahead = table.take(current_scope(), "" if request is None else request.key)
        if ahead is not None:
            ahead.turn.begin(answered_ids(path, body))
    turn = _start_turn(state, path, body, host, request) if ahead is None else ahead.turn
    return PendingAnswer(state, client, path, body, host, turn, reader, request, ahead)


def _model_request(
    client: Any, send: Any, path: str, body: dict[str, Any], options: Mapping[str, Any]
) -> OpenAIModelRequest | None:
    """Return the request, if others can be sent ahead after it."""
    if is_unread_response(options):
        return None
    request = OpenAIModelRequest(client, send, path, body, options)
    try:
        return request if request.key else None
    except Exception:  # noqa: BLE001 - a malformed history, which the endpoint will refuse
        return None


def _not_offered(state: ClientState, body: Mapping[str, Any]) -> dict[str, str]:
    """Return the tools that the answer to a request cannot call; code can call all of them."""
    if state.reads_calls:
        return {}
    return not_offered(state.toolbox.tools, offered_tools(body["tools"], body.get("tool_choice")))


def _start_turn(
    state: ClientState,
    path: str,
    body: Mapping[str, Any],
    host: Host,
    request: OpenAIModelRequest | None = None,
) -> Turn:
    turn = Turn(
        state.shared,
        tools=state.toolbox.tools,
        predictors=state.predictors,
        request=functools.partial(draft_request, state, path, body),
        scope=current_scope(),
        main=request,
        restrictions=lambda: Restrictions(_not_offered(state, body)),
    )
    turn.begin(answered_ids(path, body))
    turn.start(host)
    return turn
