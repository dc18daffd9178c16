"""The requests of an OpenAI client, as they are made ahead of their turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import openai
from openai import AsyncStream, Stream
from openai._constants import RAW_RESPONSE_HEADER
from openai._legacy_response import LegacyAPIResponse

from agentrt.calls import ToolCall
from agentrt.concurrency.handover import produced_in_thread
from agentrt.drafts import DraftRequest, Speculator
from agentrt.lookahead.request_key import request_key
from agentrt.toolcache import result_text

from .requests import after_answered, history_of

Parser = Callable[[Any], Any]


def parsed(result: Any) -> Any:
    """What the client returns to the user, parsed if it is raw; the raw one itself if it cannot be.

    Raw responses parse their body once and keep the result: the user gets the same object.
    """
    if isinstance(result, LegacyAPIResponse):
        with suppress(Exception):  # the user will meet it, if they parse it
            return result.parse()
    return result


class AnswerAhead:
    """What the client has returned ahead, before the parser of the request that keeps it has seen it."""

    def __init__(self, *, streamed: bool) -> None:
        """Nothing has come yet."""
        self.result: Any = None
        self.streamed = streamed
        self._parser: Parser | None = None

    def parse(self, value: Any) -> Any:
        """Stand in for the parser, until it is known."""
        return value if self._parser is None else self._parser(value)

    def events(self) -> Any:
        """Return the generator of the events, in whose place another one can be put; None if it is whole."""
        stream = parsed(self.result) if self.streamed else None
        self.streamed = isinstance(stream, (Stream, AsyncStream))
        return stream._iterator if isinstance(stream, (Stream, AsyncStream)) else None

    def parsed_by(self, parser: Parser | None) -> Any:
        """Return what the client would have returned to a request with this parser."""
        self._parser = parser
        return self.result if isinstance(self.result, LegacyAPIResponse) else self.parse(self.result)


@dataclass(frozen=True)
class ClientRequest:
    """One request; see :class:`agentrt.lookahead.request.ModelRequest`.

    ``options`` are those of the client's ``post``. :meth:`stream` yields an :class:`AnswerAhead`, and then
    the events, if it is streamed.
    """

    client: Any
    path: str
    body: Mapping[str, Any]
    options: Mapping[str, Any]
    predictors: Sequence[Speculator]
    draft_request: Callable[[str, Mapping[str, Any]], DraftRequest]

    @cached_property
    def key(self) -> str:
        """Of all that is sent, to whom, and how it is asked for; parsers see the answer only."""
        client = self.client
        whose = [client.organization, client.project, client.api_key]
        sent_by = [str(client.base_url), whose, client._custom_headers, client._custom_query]
        of_request = {name: value for name, value in self._request_options.items() if name != "post_parser"}
        history, rest = history_of(self.path, self.body)
        return request_key(history, [sent_by, self.path, rest, {**self.options, "options": of_request}])

    @property
    def _request_options(self) -> Mapping[str, Any]:
        given: Mapping[str, Any] = self.options.get("options") or {}
        return given

    @property
    def parser(self) -> Parser | None:
        """What makes of the answer what the user wants; ``parse`` of chat completions has one."""
        return self._request_options.get("post_parser")

    def request(self) -> DraftRequest:
        """What the predictors are shown."""
        return self.draft_request(self.path, self.body)

    def after(self, call: ToolCall, result: Any) -> ClientRequest | None:
        """Add the call and its result, which is text or goes as JSON.

        None where the next request names this one's answer, which is not there yet: responses that go on by
        ``previous_response_id`` or ``conversation``, or in the background.
        """
        text = result_text(result)
        if text is None or any(map(self.body.get, ("previous_response_id", "conversation", "background"))):
            return None
        made = ToolCall(call.name, call.arguments, "ahead")
        return replace(self, body=after_answered(self.path, self.body, [(made, text)]))

    def stream(self) -> AsyncGenerator[Any, None]:
        """Make the request, once: one that fails ahead is made again when it is due."""
        if isinstance(self.client, openai.AsyncOpenAI):
            return self._async_pieces()
        return produced_in_thread(self._pieces, name="agentrt ahead OpenAI")

    def _post(self, answer: AnswerAhead) -> Any:
        of_request = {**self._request_options, "max_retries": 0}
        if self.parser is not None:
            of_request["post_parser"] = answer.parse
        plain = type(self.client)._agentrt_base
        return plain.post(self.client, self.path, body=self.body, **{**self.options, "options": of_request})

    def _pieces(self) -> Generator[Any, None, None]:
        answer = AnswerAhead(streamed=bool(self.options.get("stream")))
        answer.result = self._post(answer)
        events = answer.events()
        if events is None:
            yield answer
            return
        with closing(events):
            yield answer
            yield from events

    async def _async_pieces(self) -> AsyncGenerator[Any, None]:
        answer = AnswerAhead(streamed=bool(self.options.get("stream")))
        answer.result = await self._post(answer)
        events = answer.events()
        if events is None:
            yield answer
            return
        async with aclosing(events):
            yield answer
            async for event in events:
                yield event


def hands_out_the_connection(options: Mapping[str, Any]) -> bool:
    """Whether the user reads the HTTP response themselves (``with_streaming_response``)."""
    headers = (options.get("options") or {}).get("headers") or {}
    return bool(headers.get(RAW_RESPONSE_HEADER) == "stream")
