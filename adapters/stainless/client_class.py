"""The classes that turn a client into a speculating one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agentrt.adapting import Toolbox, Turns
from agentrt.argument_checks import check_setting
from agentrt.dialects import Dialect, EndpointDialect, PrioritizedAsyncClient, PrioritizedClient
from agentrt.errors import ConfigurationError

from ..transparent_subclass import plain_class, transparent_subclass
from .client_state import ClientState
from .pending_answer import start_request
from .responses import aparsed, is_async, parsed
from .tool_cache import ToolCaches
from .wire import Wire

Client = TypeVar("Client")

_LISTS: Final = ("messages", "tools", "system")
"""Fields that may be given as any iterable."""


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
    """Mixin of a speculating sync client."""

    def post(self, path: str, *, body: Any = None, **options: Any) -> Any:
        """Send a request; speculate beside it if it is for a model's answer."""
        send, body = self._agentrt_post(), _with_lists(body)
        answer = start_request(self, send, path, body, options)
        if answer is None:
            return send(path, body=body, **options)
        try:
            result = answer.lookahead_result_blocking()
            if result is None:
                result = send(path, body=body, **options)
                answer.take_result(parsed(result) if answer.request.is_raw else result)
        except BaseException:
            answer.turn.discard()
            raise
        return result


class SpeculatingAsyncClient(_SpeculatingClient):
    """Mixin of a speculating async client."""

    async def post(self, path: str, *, body: Any = None, **options: Any) -> Any:
        """Send a request; speculate beside it if it is for a model's answer."""
        send, body = self._agentrt_post(), _with_lists(body)
        answer = start_request(self, send, path, body, options)
        if answer is None:
            return await send(path, body=body, **options)
        try:
            result = await answer.lookahead_result()
            if result is None:
                result = await send(path, body=body, **options)
                answer.take_result(await aparsed(result) if answer.request.is_raw else result)
        except BaseException:
            answer.turn.discard()
            raise
        return result


def _with_lists(body: Any) -> Any:
    """Return a body that can be read before it is sent: an iterator, which can be read once, is a list."""
    if not isinstance(body, Mapping):
        return body
    return {**body, **{name: list(body[name]) for name in _LISTS if isinstance(body.get(name), Iterator)}}


def speculating_copy(
    client: Client,
    wire: Wire,
    turns: Turns,
    toolbox: Toolbox,
    *,
    tool_cache: object,
    dialect: Dialect | str | None,
) -> Client:
    """Return a copy of ``client``, on the same connections, that opens its turns in ``turns``.

    If ``client`` speculates already, this is a copy of the client that it was made of.

    Raises:
        ConfigurationError: there is no predictor, no tool or no such dialect, or ``tool_cache`` is neither a
            bool nor ``"force"``.
    """
    if not turns.predictors:
        raise ConfigurationError("speculate() needs at least one predictor. Give a Speculator.")
    if not toolbox.tools:
        raise ConfigurationError("speculate() needs at least one tool. Give one declared @speculable.")
    mixin = SpeculatingAsyncClient if is_async(client) else SpeculatingClient
    copy: Any = prioritized_copy(client, EndpointDialect(dialect), mixin)
    copy._agentrt_state = ClientState(turns, toolbox, wire, ToolCaches.if_wanted(tool_cache, wire.library))
    return copy  # type: ignore[no-any-return]


def prioritized(client: Client, *, dialect: Dialect | str | None = None) -> Client:
    """Return a copy of ``client``, on the same connections, whose requests carry what ``dialect`` adds.

    It does not speculate: it is for a model of a framework that does, such as the Agents SDK or pydantic-ai,
    and that takes a client. Its requests then carry their priority, and for how long their tools usually run,
    as those of a client of :func:`speculate` do. ``dialect`` is as there.

    Raises:
        ConfigurationError: ``client`` is no client, or there is no such dialect.
    """
    usable = all(hasattr(client, name) for name in ("post", "copy", "default_headers"))
    usable = usable and not isinstance(client, type)
    wanted = "an OpenAI or Anthropic client, sync or async"
    check_setting("client", client, object if usable else (), wanted)
    return prioritized_copy(client, EndpointDialect(dialect))


def prioritized_copy(client: Client, endpoint: EndpointDialect, *mixins: type) -> Client:
    """Return a copy of ``client``, on the same connections, whose requests carry what the dialect adds."""
    plain: Any = plain_class(type(client))
    own = PrioritizedAsyncClient if is_async(client) else PrioritizedClient
    # Not by assigning __class__, which Python refuses for classes below Generic.
    copy: Any = object.__new__(_prioritized_class(plain, *mixins, own))
    copy.__dict__.update(plain.copy(client).__dict__)
    copy._agentrt_endpoint = endpoint
    return copy  # type: ignore[no-any-return]


_prioritized_class: Any = functools.cache(transparent_subclass)
