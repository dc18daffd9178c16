"""`speculate` for an Anthropic client, and the functions that a tool loop calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from agentrt.adapting import Toolbox, Turns
from agentrt.argument_checks import check_setting
from agentrt.calls import ToolCall
from agentrt.config import SpeculationConfig
from agentrt.dialects import Dialect
from agentrt.drafts import Speculator
from agentrt.errors import InvalidRequestError, MissingExtraError
from agentrt.reports import SpeculationObserver

try:
    import anthropic
except ModuleNotFoundError as error:
    raise MissingExtraError("anthropic", "anthropic") from error

from ..stainless.client_class import speculating_copy
from ..stainless.client_state import ClientState
from ..transparent_subclass import state_of
from .wire import AnthropicWire

Client = TypeVar("Client", anthropic.Anthropic, anthropic.AsyncAnthropic)


def speculate(
    client: Client,
    predictors: Speculator | Sequence[Speculator],
    *,
    tools: Sequence[Callable[..., Any]],
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
    tool_cache: bool | Literal["force"] = False,
    dialect: Dialect | str | None = None,
) -> Client:
    """Return a copy of ``client`` that speculates on the calls of ``tools``, which are ``@speculable``.

    The copy is an instance of the client's class on the same connections, and sends the same requests. While
    the model answers ``messages`` (or ``beta.messages``), the predictors predict its next call and the
    predicted tools run (SpecTools, Algorithm 2). Make the model's calls of ``tools`` with :func:`run_tool` or
    :func:`arun_tool`, or call the functions themselves, as the client's tool runner does with
    ``@beta_tool`` above ``@speculable``, which is taken here as well; make calls of other tools as before.

    One client may serve many runs at one time: a run is the context in which its requests are sent. If one
    context or thread serves several in turn, name each with :func:`agentrt.run_scope`.

    With ``tool_cache``, results of speculations are submitted to an endpoint that lists ``cache-tool-output``
    among a model's capabilities, as ``agentrt serve`` does, or lists none and answers ``{"cached": 0}`` to an
    empty list by ``POST /cache-tool-output/{response_id}`` (SpecTools, Algorithm 4): in a streamed answer the
    endpoint answers the call itself, by a ``tool_result`` block behind the call's in the same message, and
    continues. Do not make such a call again; send it back as a message of the assistant, its result as one of
    the user, and what follows as one of the assistant. The client's tool runner does not know such blocks.
    With any other endpoint nothing changes. ``tool_cache="force"`` submits them without asking.

    Inside :func:`agentrt.priority` each request to ``agentrt serve`` carries its priority, once an answer has
    shown that it is one; ``dialect="agentrt"`` says so from the first request. Anthropic's API has none.

    A client that speculates already gets these predictors, tools and settings in place of its own, and a
    report of its own.

    Raises:
        ConfigurationError: ``client`` is no client, no predictor or no tool is given, ``samples`` is below 1,
            a tool is not speculable, or there is no such dialect.
    """
    kinds = (anthropic.Anthropic, anthropic.AsyncAnthropic)
    check_setting("client", client, kinds, "an Anthropic or AsyncAnthropic client")
    turns = Turns(predictors, samples=samples, config=config, observers=observers)
    toolbox = Toolbox([getattr(tool, "func", tool) for tool in tools])  # of a @beta_tool its function
    return speculating_copy(client, AnthropicWire(), turns, toolbox, tool_cache=tool_cache, dialect=dialect)


def run_tool(client: anthropic.Anthropic | anthropic.AsyncAnthropic, call: Any) -> Any:
    """Make a tool call of the model: return the speculation's result, or run the tool now.

    ``call`` is a ``tool_use`` block of a message's content, or the same as a mapping. The tool's return value
    is returned as it is, and its exceptions are raised.

    Raises:
        InvalidRequestError: ``call`` is no tool call, the client has no such tool, the arguments are not of
            the types that the tool's annotations say, or it is a coroutine function.
    """
    return state_of(client, ClientState).toolbox.call(_parsed(call))


async def arun_tool(client: anthropic.Anthropic | anthropic.AsyncAnthropic, call: Any) -> Any:
    """:func:`run_tool` for async code. A sync tool runs in a thread, so that it cannot block the loop."""
    return await state_of(client, ClientState).toolbox.acall(_parsed(call))


def _parsed(call: Any) -> ToolCall:
    read = call.get if isinstance(call, Mapping) else functools.partial(getattr, call)
    name, arguments = read("name", None), read("input", None)
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise InvalidRequestError(
            "call",
            f"an object of type {type(call).__name__} cannot be used. Give a block of message.content whose "
            "type is tool_use.",
        )
    return ToolCall(name, arguments, read("id", None))
