"""The classes that turn an Anthropic client into a speculating one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anthropic

from agentrt.dialects import EndpointDialect, PrioritizedAsyncClient, PrioritizedClient

from ..transparent_subclass import plain_class, transparent_subclass
from .messages import with_lists
from .model_request import ClientState
from .pending_answer import start_request

Client = TypeVar("Client", anthropic.Anthropic, anthropic.AsyncAnthropic)


class _SpeculatingClient:
    """Mixin of speculating clients; ``super()`` is the class of the user's client."""

    if TYPE_CHECKING:
        _agentrt_state: ClientState

    def copy(self, **changes: Any) -> Any:
        """Return a copy of the client with other settings, which shares predictors, tools and report."""
        copied = super().copy(**changes)  # type: ignore[misc]
        copied._agentrt_state = self._agentrt_state
        return copied

    def with_options(self, **changes: Any) -> Any:
        """Return :meth:`copy`."""
        return self.copy(**changes)

    def _agentrt_post(self) -> Any:
        """Return ``post`` of the user's client, with the priority in the endpoint's dialect.

        All resources of a client send their requests by it, whether they parse the answer, stream it or
        return it raw.
        """
        return super().post  # type: ignore[misc]


class SpeculatingClient(_SpeculatingClient):
    """Mixin of a speculating ``Anthropic``."""

    def post(self, path: str, *, body: Any = None, **options: Any) -> Any:
        """Send a request; speculate beside it if it is for a model's answer."""
        send = self._agentrt_post()
        body = with_lists(body) if isinstance(body, Mapping) else body
        answer = start_request(self, send, path, body, options)
        if answer is None:
            return send(path, body=body, **options)
        try:
            result = answer.lookahead_result_blocking()
            if result is None:
                result = send(path, body=body, **options)
                answer.take_result(_parsed(result) if answer.is_raw else result)
        except BaseException:
            answer.turn.discard()
            raise
        return result


class SpeculatingAsyncClient(_SpeculatingClient):
    """Mixin of a speculating ``AsyncAnthropic``."""

    async def post(self, path: str, *, body: Any = None, **options: Any) -> Any:
        """Send a request; speculate beside it if it is for a model's answer."""
        send = self._agentrt_post()
        body = with_lists(body) if isinstance(body, Mapping) else body
        answer = start_request(self, send, path, body, options)
        if answer is None:
            return await send(path, body=body, **options)
        try:
            result = await answer.lookahead_result()
            if result is None:
                result = await send(path, body=body, **options)
                answer.take_result(await _aparsed(result) if answer.is_raw else result)
        except BaseException:
            answer.turn.discard()
            raise
        return result


def _parsed(response: Any) -> Any:
    """Return what a raw response parses to, which it keeps for the user."""
    with suppress(Exception):  # raised again when the user parses it
        return response.parse()


async def _aparsed(response: Any) -> Any:
    with suppress(Exception):
        parsed = response.parse()
        return await parsed if inspect.isawaitable(parsed) else parsed


def speculating_copy(client: Client, state: ClientState, endpoint: EndpointDialect) -> Client:
    """Return a copy of ``client``, on the same connections, that speculates with ``state``."""
    plain: Any = plain_class(type(client))
    # Not by assigning __class__, which Python refuses for classes below Generic.
    copy: Any = object.__new__(_speculating_class(plain))
    copy.__dict__.update(plain.copy(client).__dict__)
    copy._agentrt_state, copy._agentrt_endpoint = state, endpoint
    return copy  # type: ignore[no-any-return]


@functools.cache
def _speculating_class(base: Any) -> Any:
    if issubclass(base, anthropic.AsyncAnthropic):
        return transparent_subclass(base, SpeculatingAsyncClient, PrioritizedAsyncClient)
    return transparent_subclass(base, SpeculatingClient, PrioritizedClient)
