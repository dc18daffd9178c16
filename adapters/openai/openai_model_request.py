"""A model request of an OpenAI client that can be sent ahead of its turn, and its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import openai
from openai import AsyncStream, Stream
from openai._constants import RAW_RESPONSE_HEADER
from openai._legacy_response import LegacyAPIResponse

from agentrt import DraftRequest, Priority, ToolCall, current_priority
from agentrt.adapting import request_key
from agentrt.dialects import CHAT_COMPLETIONS
from agentrt.drafts import Speculator
from agentrt.toolcache import result_text

from ..transparent_subclass import state_of
from .client_state import ClientState
from .request_body import body_after_calls, history_and_rest

Parser = Callable[[Any], Any]


class LookaheadResponse:
    """A response whose ``post_parser`` is that of a later request.

    ``parse`` of chat completions has such a parser, and the request that was sent ahead cannot know it.
    """

    def __init__(self, *, streamed: bool) -> None:
        """``streamed`` says whether the request asks for a stream; :meth:`events` corrects it."""
        self.result: Any = None
        """What the client returned."""
        self.streamed = streamed
        self._parser: Parser | None = None

    def parse(self, value: Any) -> Any:
        """Parse by the later request's parser; return ``value`` itself until that is known."""
        return value if self._parser is None else self._parser(value)

    def events(self) -> Any:
        """Return the stream's generator of events, so that another can take its place; None if whole."""
        stream = parsed(self.result) if self.streamed else None
        self.streamed = isinstance(stream, (Stream, AsyncStream))
        return stream._iterator if isinstance(stream, (Stream, AsyncStream)) else None

    def parsed_by(self, parser: Parser | None) -> Any:
        """Return what the client would have returned to a request with this parser."""
        self._parser = parser
        return self.result if isinstance(self.result, LegacyAPIResponse) else self.parse(self.result)


def parsed(result: Any) -> Any:
    """Return what the client returned, parsed if it is a raw response that can be parsed.

    A raw response parses its body once and keeps the result, so the user gets the same object.
    """
    if isinstance(result, LegacyAPIResponse):
        with suppress(Exception):  # raised again when the user parses it
            return result.parse()
    return result


def is_unread_response(options: Mapping[str, Any]) -> bool:
    """Whether the client leaves the HTTP response to the user to read (``with_streaming_response``)."""
    headers = (options.get("options") or {}).get("headers") or {}
    return bool(headers.get(RAW_RESPONSE_HEADER) == "stream")


@dataclass(frozen=True)
class OpenAIModelRequest:
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
        account = [client.organization, client.project, client.api_key]
        endpoint = [str(client.base_url), account, client._custom_headers, client._custom_query]
        options = {name: value for name, value in self._request_options.items() if name != "post_parser"}
        history, rest = history_and_rest(self.path, self.body)
        return request_key(
            history, [endpoint, self.path, self.priority, rest, {**self.options, "options": options}]
        )

    @property
    def predictors(self) -> Sequence[Speculator]:
        """The client's predictors."""
        return state_of(self.client, ClientState).turns.predictors

    @property
    def parser(self) -> Parser | None:
        """The ``post_parser`` that the answer goes through; ``parse`` of chat completions has one."""
        return self._request_options.get("post_parser")

    @property
    def _request_options(self) -> Mapping[str, Any]:
        given: Mapping[str, Any] = self.options.get("options") or {}
        return given

    def request(self) -> DraftRequest:
        """Return the request in the form that predictors take."""
        return draft_request(state_of(self.client, ClientState), self.path, self.body)

    def after(self, call: ToolCall, result: Any) -> OpenAIModelRequest | None:
        """Return the request that follows this call and result; None if it cannot be known.

        The result must be text or JSON. A request that continues a response of the server, by
        ``previous_response_id``, ``conversation`` or in the background, is followed by one that names this
        one's answer, which is not there yet.
        """
        text = result_text(result)
        if text is None or any(map(self.body.get, ("previous_response_id", "conversation", "background"))):
            return None
        made = ToolCall(call.name, call.arguments, "ahead")
        return replace(self, body=body_after_calls(self.path, self.body, [(made, text)]))

    def stream(self) -> AsyncGenerator[Any, None] | Generator[Any, None, None]:
        """Send the request, once; yield a :class:`LookaheadResponse`, and then its events if it is streamed.

        A request that fails is not retried here: it is sent again when it is due.
        """
        is_async = isinstance(self.client, openai.AsyncOpenAI)
        return self._stream_async() if is_async else self._stream_blocking()

    def _post(self, response: LookaheadResponse) -> Any:
        options = {**self._request_options, "max_retries": 0}
        if self.parser is not None:
            options["post_parser"] = response.parse
        return self.send(self.path, body=self.body, **{**self.options, "options": options})

    def _stream_blocking(self) -> Generator[Any, None, None]:
        response = LookaheadResponse(streamed=bool(self.options.get("stream")))
        response.result = self._post(response)
        events = response.events()
        if events is None:
            yield response
            return
        with closing(events):
            yield response
            yield from events

    async def _stream_async(self) -> AsyncGenerator[Any, None]:
        response = LookaheadResponse(streamed=bool(self.options.get("stream")))
        response.result = await self._post(response)
        events = response.events()
        if events is None:
            yield response
            return
        async with aclosing(events):
            yield response
            async for event in events:
                yield event


def draft_request(state: ClientState, path: str, body: Mapping[str, Any]) -> DraftRequest:
    """Return a request of either API for the predictors of a client."""
    if path != CHAT_COMPLETIONS:
        return state.history.draft_request(body)
    tools = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    return DraftRequest(list(body["messages"]), tools)
