"""A request for a message that can be sent ahead of its turn, and what all copies of one client share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import anthropic
from anthropic import AsyncStream, Stream
from anthropic._constants import RAW_RESPONSE_HEADER

from agentrt import DraftRequest, Priority, ToolCall, current_priority
from agentrt.adapting import Toolbox, Turns, request_key
from agentrt.drafts import Speculator
from agentrt.toolcache import result_text

from ..transparent_subclass import state_of
from .messages import Threads, body_after_call, draft_request, given_in, history

Parser = Callable[[Any], Any]

_OF_THIS_REQUEST: Final = ("post_parser", "span_")
"""Beginnings of the options that say how a request is traced and its answer parsed, not what is asked."""


@dataclass(frozen=True, slots=True)
class ClientState:
    """Predictors, settings, tools and report of a speculating client; shared by its copies."""

    turns: Turns
    toolbox: Toolbox
    threads: Threads = field(default_factory=Threads)


class LookaheadResponse:
    """The answer to a request that was sent ahead, which a later request's ``post_parser`` parses."""

    def __init__(self) -> None:
        """Nothing was answered yet."""
        self.result: Any = None
        """What the client returned."""
        self._parser: Parser | None = None

    def parse(self, value: Any) -> Any:
        """Parse by the later request's parser; return ``value`` itself until that is known."""
        return value if self._parser is None else self._parser(value)

    @property
    def is_streamed(self) -> bool:
        """Whether the client returned a stream of events."""
        return isinstance(self.result, (Stream, AsyncStream))

    def parsed_by(self, parser: Parser | None) -> Any:
        """Return what the client would have returned to a request with this parser."""
        self._parser = parser
        return self.parse(self.result)


def raw_kind(options: Mapping[str, Any]) -> str | None:
    """Return how the HTTP response is handed to the user; None if it is not.

    ``"raw"``: it was read (``with_raw_response``). ``"stream"``: the user reads it
    (``with_streaming_response``).
    """
    kind: str | None = ((options.get("options") or {}).get("headers") or {}).get(RAW_RESPONSE_HEADER)
    return kind


@dataclass(frozen=True)
class AnthropicModelRequest:
    """One request by the client's ``post``; a :class:`agentrt.adapting.ModelRequest`.

    ``send`` is ``post`` of the user's client, without speculation, and ``options`` its other arguments.
    """

    client: Any
    send: Callable[..., Any]
    path: str
    body: Mapping[str, Any]
    options: Mapping[str, Any]
    priority: Priority = field(default_factory=current_priority)

    @cached_property
    def key(self) -> str:
        """Equal for equal endpoint, keys, priority, body and options; ids of calls and parsers may differ."""
        client = self.client
        account = [client.api_key, client.auth_token, client._custom_headers, client._custom_query]
        options = {
            name: value
            for name, value in self._request_options.items()
            if not name.startswith(_OF_THIS_REQUEST)
        }
        fields = given_in(self.body)
        rest = {name: value for name, value in fields.items() if name != "messages"}
        sent = [str(client.base_url), account, self.path, self.priority, rest]
        return request_key(history(fields), [*sent, {**self.options, "options": options}])

    @property
    def predictors(self) -> Sequence[Speculator]:
        """The client's predictors."""
        return state_of(self.client, ClientState).turns.predictors

    @property
    def parser(self) -> Parser | None:
        """The ``post_parser`` that the answer goes through; ``messages.parse`` has one."""
        return self._request_options.get("post_parser")

    @property
    def _request_options(self) -> Mapping[str, Any]:
        given: Mapping[str, Any] = self.options.get("options") or {}
        return given

    def request(self) -> DraftRequest:
        """Return the request in the form that predictors take."""
        return draft_request(given_in(self.body))

    def after(self, call: ToolCall, result: Any) -> AnthropicModelRequest | None:
        """Return the request that follows this call and result; None if it cannot be known.

        The result must be text or JSON. The next request of a message thread names this one's answer, which
        is not there yet.
        """
        text = result_text(result)
        if text is None or given_in(self.body).get("thread"):
            return None
        made = ToolCall(call.name, call.arguments, "toolu_ahead")
        return replace(self, body=body_after_call(self.body, made, text))

    def stream(self) -> AsyncGenerator[Any, None] | Generator[Any, None, None]:
        """Send the request, once; yield a :class:`LookaheadResponse`, and then its events if it is streamed.

        A request that fails is not retried here: it is sent again when it is due.
        """
        is_async = isinstance(self.client, anthropic.AsyncAnthropic)
        return self._stream_async() if is_async else self._stream_blocking()

    def _post(self, response: LookaheadResponse) -> Any:
        options = {**self._request_options, "max_retries": 0}
        if self.parser is not None:
            options["post_parser"] = response.parse
        return self.send(self.path, body=self.body, **{**self.options, "options": options})

    def _stream_blocking(self) -> Generator[Any, None, None]:
        response = LookaheadResponse()
        response.result = self._post(response)
        if not response.is_streamed:
            yield response
            return
        with closing(response.result._iterator) as events:
            yield response
            yield from events

    async def _stream_async(self) -> AsyncGenerator[Any, None]:
        response = LookaheadResponse()
        response.result = await self._post(response)
        if not response.is_streamed:
            yield response
            return
        async with aclosing(response.result._iterator) as events:
            yield response
            async for event in events:
                yield event
