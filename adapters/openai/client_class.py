"""The classes that turn an OpenAI client into a speculating one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import openai

from agentrt.dialects import EndpointDialect, PrioritizedAsyncClient, PrioritizedClient

from ..transparent_subclass import plain_class, transparent_subclass
from .client_state import ClientState
from .pending_answer import start_request

Client = TypeVar("Client", openai.OpenAI, openai.AsyncOpenAI)


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
    """Mixin of a speculating ``OpenAI``."""

    def post(self, path: str, *, body: Any = None, **options: Any) -> Any:
        """Send a request; speculate beside it if it is for a model's answer."""
        send = self._agentrt_post()
        answer = start_request(self, send, path, body, options)
        if answer is None:
            return send(path, body=body, **options)
        try:
            result = answer.lookahead_result_blocking()
            if result is None:
                result = send(path, body=body, **options)
                answer.take_result(result)
        except BaseException:
            answer.turn.discard()
            raise
        return result


class SpeculatingAsyncClient(_SpeculatingClient):
    """Mixin of a speculating ``AsyncOpenAI``."""

    async def post(self, path: str, *, body: Any = None, **options: Any) -> Any:
        """Send a request; speculate beside it if it is for a model's answer."""
        send = self._agentrt_post()
        answer = start_request(self, send, path, body, options)
        if answer is None:
            return await send(path, body=body, **options)
        try:
            result = await answer.lookahead_result()
            if result is None:
                result = await send(path, body=body, **options)
                answer.take_result(result)
        except BaseException:
            answer.turn.discard()
            raise
        return result


def speculating_copy(client: Client, state: ClientState, endpoint: EndpointDialect) -> Client:
    """Return a copy of ``client``, on the same connections, that speculates with ``state``."""
    mixin = SpeculatingAsyncClient if isinstance(client, openai.AsyncOpenAI) else SpeculatingClient
    copy: Any = prioritized_copy(client, endpoint, mixin)
    copy._agentrt_state = state
    return copy  # type: ignore[no-any-return]


def prioritized_copy(client: Client, endpoint: EndpointDialect, *mixins: type) -> Client:
    """Return a copy of ``client``, on the same connections, that sends priorities in a dialect."""
    plain: Any = plain_class(type(client))
    # Not by assigning __class__, which Python refuses for classes below Generic.
    copy: Any = object.__new__(_prioritized_class(plain, *mixins))
    copy.__dict__.update(plain.copy(client).__dict__)
    copy._agentrt_endpoint = endpoint
    return copy  # type: ignore[no-any-return]


@functools.cache
def _prioritized_class(base: Any, *mixins: type) -> Any:
    own = PrioritizedAsyncClient if issubclass(base, openai.AsyncOpenAI) else PrioritizedClient
    return transparent_subclass(base, *mixins, own)
