"""A request for a message while its answer is under way, and the calls that are read from the answer."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import anthropic
from anthropic import AsyncStream, Stream

from agentrt import ToolCall
from agentrt.adapting import Turn, offered_tools
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta, parse_arguments
from agentrt.drafts import reads_calls

from .messages import Body, Threads, answered_ids, draft_request, given_in
from .model_request import AnthropicModelRequest, ClientState, Parser, raw_kind

_PATHS: Final = frozenset({"/v1/messages", "/v1/messages?beta=true"})


class MessageReader:
    """Reads the tool calls of one message, whole or streamed, without those that the server has answered.

    ``agentrt serve`` answers calls from its tool cache, with a ``tool_result`` block in the message.
    """

    def __init__(self, threads: Threads, fields: Body) -> None:
        """``fields`` are the request's, whose answer ``threads`` remembers."""
        self._threads = threads
        self._fields = fields
        self._id = ""
        self._parts: dict[int, list[str]] = {}
        """Name, id and arguments of each call, by the index of its block."""
        self._answered: set[str] = set()

    def read_whole(self, message: Any) -> Sequence[ToolCall] | None:
        """Return the calls of a message; None if it is none."""
        if getattr(message, "type", None) != "message":
            return None
        answered = {block.tool_use_id for block in message.content if block.type == "tool_result"}
        made = [block for block in message.content if block.type == "tool_use" and block.id not in answered]
        calls = [ToolCall(block.name, block.input, block.id) for block in made]
        self._remember(message.id, calls)
        return calls

    def _remember(self, message_id: str, calls: Sequence[ToolCall]) -> None:
        blocks = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
        self._threads.remember(self._fields, message_id, blocks)

    def read_event(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event of a streamed message; yield it as the events that predictors take."""
        match event.type:
            case "message_start":
                self._id = event.message.id
            case "content_block_start" if event.content_block.type == "tool_use":
                position = len(self._parts)
                self._parts[event.index] = [event.content_block.name, event.content_block.id, ""]
                yield CallStarted(position, event.content_block.name)
            case "content_block_start" if event.content_block.type == "tool_result":
                self._answered.add(event.content_block.tool_use_id)
            case "content_block_delta" if event.delta.type == "text_delta":
                yield TextDelta(event.delta.text)
            case "content_block_delta" if event.delta.type == "input_json_delta":
                if (part := self._parts.get(event.index)) is not None:
                    part[2] += event.delta.partial_json
                    yield CallArgumentsDelta(list(self._parts).index(event.index), event.delta.partial_json)

    def complete(self, event: Any) -> Sequence[ToolCall] | None:
        """Return all calls if ``event`` says why the message has ended: no block follows it; else None."""
        if event.type != "message_delta":
            return None
        calls = []
        for name, call_id, arguments in self._parts.values():
            with suppress(ValueError):  # it was cut off
                if call_id not in self._answered:
                    calls.append(ToolCall(name, parse_arguments(arguments), call_id))
        self._remember(self._id, calls)
        return calls


@dataclass(slots=True)
class PendingAnswer:
    """The turn beside one request, and the reader of its answer."""

    turn: Turn
    reader: MessageReader
    parser: Parser | None
    """The ``post_parser`` that the answer goes through."""
    is_raw: bool
    """Whether the result is a response that was read and is not parsed yet."""

    def lookahead_result_blocking(self) -> Any:
        """Return the result of the request that was sent ahead; None if there is none or it has failed."""
        pieces = self.turn.lookahead_answer_blocking()
        response = next(pieces, None)
        if response is None:
            return None
        if not response.is_streamed:
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
        if not response.is_streamed:
            await pieces.aclose()
        result = response.parsed_by(self.parser)
        self.take_result(result, pieces)
        return result

    def take_result(self, result: Any, events: Any = None) -> None:
        """Take what the client returns to the user, and bind the turn: now, or when the stream ends.

        ``events`` replaces the stream's own generator of events.
        """
        if isinstance(result, (Stream, AsyncStream)):
            weakref.finalize(result, self.turn.discard)  # a stream that is never read
            read: Any = self._read if isinstance(result, Stream) else self._read_async
            result._iterator = read(result._iterator if events is None else events)  # type: ignore[misc]
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
            # Before the event is handed on: with the last one the user may make the calls at once.
            calls = self.reader.complete(event)
            if calls is not None:
                self.turn.bind(calls)


def start_request(
    client: Any, send: Any, path: str, body: Mapping[str, Any], options: Mapping[str, Any]
) -> PendingAnswer | None:
    """Start a turn beside a request whose body can be read more than once.

    ``send`` is ``post`` of the user's client. Returns None if there is nothing to speculate on.
    """
    state: ClientState | None = getattr(client, "_agentrt_state", None)
    if state is None or path not in _PATHS or not state.toolbox.tools:
        return None
    fields = state.threads.whole(given_in(body))
    any_tool = any(map(reads_calls, state.turns.predictors))  # code may call all of them
    offered = offered_tools(fields.get("tools") or (), fields.get("tool_choice"))
    if not offered and not any_tool:
        return None
    # A response that is handed to the user is the answer to one request only.
    raw = raw_kind(options)
    sent = None if raw else AnthropicModelRequest(client, send, path, body, options)
    turn = state.turns.start(
        functools.partial(draft_request, fields),
        tools=state.toolbox.tools,
        offered=None if any_tool else offered,
        answered=answered_ids(fields),
        blocking=isinstance(client, anthropic.Anthropic),
        ahead=lambda: sent,
    )
    return PendingAnswer(
        turn, MessageReader(state.threads, fields), None if sent is None else sent.parser, raw == "raw"
    )
