"""A request for a model's answer that can be sent ahead of its turn, and its answer."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from agentrt import DraftRequest, Priority, ToolCall, current_priority
from agentrt.adapting import request_key
from agentrt.drafts import Speculator
from agentrt.toolcache import result_text

from ..transparent_subclass import state_of
from .client_state import ClientState
from .responses import LookaheadResponse, Parser, aparsed, is_async, is_stream, parsed, raw_kind
from .wire import Answered, Body

_OF_THIS_REQUEST: Final = ("post_parser", "span_")
"""Beginnings of the options that say how a request is traced and its answer parsed, not what is asked."""


@dataclass(frozen=True)
class ClientModelRequest:
    """One request by the client's ``post``; a :class:`agentrt.adapting.ModelRequest`.

    ``send`` is ``post`` of the user's client, without speculation, and ``options`` its other arguments.
    """

    client: Any
    send: Callable[..., Any]
    path: str
    body: Body
    """What is sent."""
    fields: Body
    """The body as :meth:`Wire.fields` returns it."""
    options: Mapping[str, Any]
    priority: Priority = field(default_factory=current_priority)

    @cached_property
    def state(self) -> ClientState:
        """The client's."""
        return state_of(self.client, ClientState)

    @cached_property
    def key(self) -> str:
        """Equal for equal endpoint, keys, priority, body and options; ids of calls and parsers may differ."""
        client, wire = self.client, self.state.wire
        account = [getattr(client, name) for name in wire.account]
        endpoint = [str(client.base_url), account, client._custom_headers, client._custom_query]
        options = {
            name: value
            for name, value in self._request_options.items()
            if not name.startswith(_OF_THIS_REQUEST)
        }
        history, rest = wire.history_and_rest(self.path, self.fields)
        sent = [endpoint, self.path, self.priority, rest]
        return request_key(history, [*sent, {**self.options, "options": options}])

    @property
    def predictors(self) -> Sequence[Speculator]:
        """The client's predictors."""
        return self.state.turns.predictors

    @property
    def parser(self) -> Parser | None:
        """The ``post_parser`` that the answer goes through; ``parse`` of a resource has one."""
        return self._request_options.get("post_parser")

    @property
    def is_unread(self) -> bool:
        """Whether the HTTP response is left to the user to read: it answers no other request."""
        return raw_kind(self.options) == "stream"

    @property
    def is_raw(self) -> bool:
        """Whether the result is a response that was read and is not parsed yet."""
        return raw_kind(self.options) not in (None, "stream")

    @property
    def _request_options(self) -> Mapping[str, Any]:
        given: Mapping[str, Any] = self.options.get("options") or {}
        return given

    def request(self) -> DraftRequest:
        """Return the request in the form that predictors take."""
        return self.state.wire.draft_request(self.path, self.fields)

    def after(self, call: ToolCall, result: Any) -> ClientModelRequest | None:
        """Return the request that follows this call and result; None if it cannot be known.

        The result must be text or JSON. A request that names this one's answer needs that first.
        """
        text = result_text(result)
        if text is None or self.state.wire.names_its_answer(self.fields):
            return None
        return self.after_calls([(ToolCall(call.name, call.arguments, "ahead"), text)])

    def after_calls(self, answered: Answered) -> ClientModelRequest:
        """Return the request that follows an answer with these calls."""
        after = functools.partial(self.state.wire.body_after_calls, self.path, answered=answered)
        return replace(self, body=after(self.body), fields=after(self.fields))

    def stream(self) -> AsyncGenerator[Any, None] | Generator[Any, None, None]:
        """Send the request, once; yield a :class:`LookaheadResponse`, and then its events if it is streamed.

        A request that fails is not retried here: it is sent again when it is due.
        """
        return self._stream_async() if is_async(self.client) else self._stream_blocking()

    def _post(self, response: LookaheadResponse) -> Any:
        options = {**self._request_options, "max_retries": 0}
        if self.parser is not None:
            options["post_parser"] = response.parse
        return self.send(self.path, body=self.body, **{**self.options, "options": options})

    def _stream_blocking(self) -> Generator[Any, None, None]:
        response = LookaheadResponse(is_raw=self.is_raw)
        result = response.result = self._post(response)
        if self.options.get("stream"):  # a whole raw response is parsed by the later request's parser
            result = parsed(result) if self.is_raw else result
        if not is_stream(result):
            yield response
            return
        response.stream = result
        with closing(result._iterator) as events:
            yield response
            yield from events

    async def _stream_async(self) -> AsyncGenerator[Any, None]:
        response = LookaheadResponse(is_raw=self.is_raw)
        result = response.result = await self._post(response)
        if self.options.get("stream"):
            result = await aparsed(result) if self.is_raw else result
        if not is_stream(result):
            yield response
            return
        response.stream = result
        async with aclosing(result._iterator) as events:
            yield response
            async for event in events:
                yield event
