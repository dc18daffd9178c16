"""`speculate` for an OpenAI client, and the functions that a tool loop calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Literal, TypeVar

from agentrt.adapting import Toolbox, Turns
from agentrt.argument_checks import check_field, check_setting
from agentrt.calls import ToolCall, parse_arguments
from agentrt.config import SpeculationConfig
from agentrt.dialects import Dialect
from agentrt.drafts import Speculator
from agentrt.errors import InvalidRequestError, MissingExtraError
from agentrt.reports import SpeculationObserver

try:
    import openai
except ModuleNotFoundError as error:
    raise MissingExtraError("openai", "openai") from error

from ..stainless.client_class import speculating_copy
from ..stainless.client_state import ClientState
from ..transparent_subclass import state_of
from .wire import OpenAIWire

Client = TypeVar("Client", openai.OpenAI, openai.AsyncOpenAI)


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
    the model answers ``chat.completions`` or ``responses``, the predictors predict its next call and the
    predicted tools run (SpecTools, Algorithm 2). Make the model's calls of ``tools`` with :func:`run_tool` or
    :func:`arun_tool`, or call the functions themselves, and make calls of other tools as before.

    One client may serve many runs at one time: a run is the context in which its requests are sent, or a run
    of pydantic-ai. If one context or thread serves several in turn, name each with :func:`agentrt.run_scope`.

    With ``tool_cache``, results of speculations are submitted to an endpoint that lists ``cache-tool-output``
    among a model's capabilities, as ``agentrt serve`` does, or lists none and answers ``{"cached": 0}`` to an
    empty list by ``POST /cache-tool-output/{response_id}`` (SpecTools, Algorithm 4): in a streamed answer the
    endpoint answers the call itself and continues. Such a call comes with its result, in
    ``delta.tool_results`` of a chunk or as a ``function_call_output`` item of the response; do not make it
    again. With any other endpoint nothing changes. ``tool_cache="force"`` submits them without asking.

    Inside :func:`agentrt.priority` each request carries its priority in ``dialect``, the name of one of
    :mod:`agentrt.dialects` or one of your own; if it is None, in that of the endpoint once an answer has
    shown it.

    A client that speculates already gets these predictors, tools and settings in place of its own, and a
    report of its own.

    Raises:
        ConfigurationError: ``client`` is no client, no predictor or no tool is given, ``samples`` is below 1,
            a tool is not speculable, or there is no such dialect.
    """
    check_setting("client", client, (openai.OpenAI, openai.AsyncOpenAI), "an OpenAI or AsyncOpenAI client")
    turns = Turns(predictors, samples=samples, config=config, observers=observers)
    return speculating_copy(
        client, OpenAIWire(), turns, Toolbox(tools), tool_cache=tool_cache, dialect=dialect
    )


def run_tool(client: openai.OpenAI | openai.AsyncOpenAI, call: Any) -> Any:
    """Make a tool call of the model: return the speculation's result, or run the tool now.

    ``call`` is a tool call of a chat completion's message or a ``function_call`` item of a response; empty
    arguments are none. The tool's return value is returned as it is, and its exceptions are raised.

    Raises:
        InvalidRequestError: ``call`` is no tool call, the client has no such tool, the tool refuses the
            arguments, or it is a coroutine function.
    """
    return state_of(client, ClientState).toolbox.call(_parsed(call))


async def arun_tool(client: openai.OpenAI | openai.AsyncOpenAI, call: Any) -> Any:
    """:func:`run_tool` for async code. A sync tool runs in a thread, so that it cannot block the loop."""
    return await state_of(client, ClientState).toolbox.acall(_parsed(call))


def _parsed(call: Any) -> ToolCall:
    function = getattr(call, "function", call)
    try:
        call_id = call.id if function is not call else call.call_id
        name, arguments = function.name, function.arguments
    except AttributeError:
        raise InvalidRequestError(
            "call",
            f"an object of type {type(call).__name__} cannot be used. Give an element of message.tool_calls, "
            "or an item of response.output whose type is function_call.",
        ) from None
    check_field("arguments", arguments, (str, NoneType), "the JSON text that the model wrote")
    try:
        return ToolCall(name, parse_arguments(arguments), call_id)
    except ValueError as error:
        raise InvalidRequestError(
            "arguments", f"those of {name} cannot be read: {error}. Tell the model what to correct."
        ) from error
