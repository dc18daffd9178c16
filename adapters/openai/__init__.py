"""agentrt for tool loops on the OpenAI client: chat completions and responses, streamed or not.

::

    client = speculate(AsyncOpenAI(), predictors, tools=[search_notes, read_note])
    ...
    message = (await client.chat.completions.create(model=..., messages=..., tools=...)).choices[0].message
    results = [await arun_tool(client, call) for call in message.tool_calls or ()]

A sync client works alike, with :func:`run_tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agentrt.calls import ToolCall, parse_arguments
from agentrt.config import SpeculationConfig
from agentrt.drafts import Speculator
from agentrt.errors import ConfigurationError, InvalidRequestError, MissingExtraError
from agentrt.reports.events import SpeculationObserver
from agentrt.reports.report import SpeculationReport
from agentrt.tools.scopes import current_scope
from agentrt.tools.toolbox import Toolbox
from agentrt.turns.shared import SharedState

try:
    import openai
except ModuleNotFoundError as error:
    raise MissingExtraError("openai", "openai") from error

from .client import Setup, setup_of, speculating_copy
from .tool_cache import ToolCacheEndpoint

__all__ = ["arun_tool", "report_of", "run_tool", "speculate"]

Client = TypeVar("Client", openai.OpenAI, openai.AsyncOpenAI)


def speculate(
    client: Client,
    predictors: Speculator | Sequence[Speculator],
    *,
    tools: Sequence[Callable[..., Any]],
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
    tool_cache: bool = False,
) -> Client:
    """Return a copy of ``client`` that speculates on the calls of ``tools``, which are ``@speculable``.

    The copy is an instance of the client's class on the same connections, and every request goes out as it
    would have. While the model answers ``chat.completions`` or ``responses``, the predictors guess its next
    call and the guessed tools run (SpecTools, Algorithm 2). Make the calls it really asks for with
    :func:`run_tool` or :func:`arun_tool`. Calls of other tools are yours to make.

    One client may serve many runs at one time. Where the endpoint's call ids are not unique, as those of
    OpenAI are, say with :func:`agentrt.run_scope` which run is which: otherwise a repeated id is a miss.

    With ``tool_cache``, results of early runs are submitted to an endpoint that names ``cache-tool-output``
    among a model's capabilities, as ``agentrt serve`` does (SpecTools, Algorithm 4): in a streamed answer it
    answers the call itself and goes on. Such a call comes with its result, in ``delta.tool_results`` of a
    chunk or as a ``function_call_output`` item of the response, and is not yours to make. With any other
    endpoint nothing changes.

    Raises:
        ConfigurationError: there is no predictor, or a tool is not speculable.
    """
    given = (predictors,) if isinstance(predictors, Speculator) else tuple(predictors)
    if not given or samples < 1:
        raise ConfigurationError("speculate() needs at least one predictor and one sample.")
    context = SharedState.create(samples, config, observers)
    setup = Setup(given, Toolbox(tools), context, ToolCacheEndpoint() if tool_cache else None)
    return speculating_copy(client, setup)


def run_tool(client: openai.OpenAI | openai.AsyncOpenAI, call: Any) -> Any:
    """Make a call that the model asked for: its speculation's result, or else the tool's, run now.

    ``call`` is a tool call of a chat completion's message or a ``function_call`` item of a response. What the
    tool returns comes back as it is. Raises what the tool raises, and :class:`InvalidRequestError` if the
    client has no such tool, if the tool refuses the arguments, or if it is a coroutine function.
    """
    return setup_of(client).toolbox.call(_parsed(call), current_scope())


async def arun_tool(client: openai.OpenAI | openai.AsyncOpenAI, call: Any) -> Any:
    """:func:`run_tool` for async code. A sync tool runs in a thread, so that it cannot block the loop."""
    return await setup_of(client).toolbox.acall(_parsed(call), current_scope())


def report_of(client: openai.OpenAI | openai.AsyncOpenAI) -> SpeculationReport:
    """Return the report of a client that :func:`speculate` returned, or of a copy of it."""
    return setup_of(client).context.reporter.report()


def _parsed(call: Any) -> ToolCall:
    function = getattr(call, "function", call)
    call_id = call.id if function is not call else call.call_id
    try:
        return ToolCall(function.name, parse_arguments(function.arguments), call_id)
    except ValueError as error:
        raise InvalidRequestError(
            "arguments", f"those of {function.name} cannot be read: {error}. Tell the model what to correct."
        ) from error
