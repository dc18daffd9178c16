"""`speculate`: a chat model that runs predicted tool calls while it generates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding

from agentrt.adapting import Turns
from agentrt.argument_checks import check_setting
from agentrt.config import SpeculationConfig
from agentrt.dialects import Dialect, EndpointDialect
from agentrt.errors import ConfigurationError
from agentrt.reports import SpeculationObserver, SpeculationReport

from ...transparent_subclass import plain_class, state_of
from .model_state import ModelState, Predictor
from .speculating_model import speculating_class

if TYPE_CHECKING:
    from ...stainless.tool_cache import ToolCaches

Model = TypeVar("Model", bound=BaseChatModel)


def speculate(
    model: Model,
    predictors: Predictor | Sequence[Predictor],
    *,
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
    tool_cache: bool | Literal["force"] = False,
    dialect: Dialect | str | None = None,
) -> Model:
    """Return a copy of ``model`` that speculates on the calls of ``@speculable`` tools.

    The copy is an instance of ``type(model)`` and works wherever the model does: in ``create_agent``, in a
    graph with a ``ToolNode``, sync, async or streamed. Only timing changes (SpecTools, Algorithm 2): while
    the model generates, the predictors predict its next call and the predicted tools run; when the model
    makes that call, the tool returns the result that is already there or on its way.

    ``predictors`` are speculators, chat models used as drafts, or a list of either; each takes ``samples``
    samples (λ). :func:`report_of` returns the report.

    With ``tool_cache``, a ``ChatOpenAI`` submits results of speculations to an endpoint that lists
    ``cache-tool-output`` among a model's capabilities, as ``agentrt serve`` does, or lists none and answers
    ``{"cached": 0}`` to an empty list by ``POST /cache-tool-output/{response_id}`` (SpecTools, Algorithm 4):
    in an answer streamed by chat completions (``ChatOpenAI(streaming=True)`` streams all) the endpoint
    answers the call itself and continues. As with ``ChatAgentRT(tool_cache=True)``, such calls pass through
    no node, interrupt or middleware: they are ``server_tool_call`` and ``server_tool_result`` blocks of the
    message. A streamed call then comes in one piece, when its turn ends. With any other endpoint, Algorithm 2
    is used. ``tool_cache="force"`` submits them without asking.

    Inside :func:`agentrt.priority` each request of a ``ChatOpenAI`` carries its priority in ``dialect``, the
    name of one of :mod:`agentrt.dialects` or one of your own; if it is None, in that of the endpoint once an
    answer has shown it.

    A model that speculates already gets these predictors and settings in place of its own, and a report of
    its own.

    Raises:
        ConfigurationError: ``model`` is no chat model or has its tools bound already, there is no predictor,
            ``samples`` is below 1, there is no such dialect, or ``tool_cache`` or ``dialect`` is set for a
            model that is no ``ChatOpenAI``.
    """
    if isinstance(model, RunnableBinding):
        raise ConfigurationError(
            "speculate() needs the chat model itself. Call it first and bind_tools() on what it returns."
        )
    check_setting("model", model, BaseChatModel, "a LangChain chat model, such as ChatAgentRT()")
    turns = Turns(predictors, samples=samples, config=config, observers=observers, others=(BaseChatModel,))
    if not turns.predictors:
        raise ConfigurationError("speculate() needs at least one predictor. Give a Speculator.")
    return speculating_copy(model, turns, tool_cache=tool_cache, dialect=dialect)


def speculating_copy(
    model: Model, turns: Turns, *, tool_cache: object = False, dialect: Dialect | str | None = None
) -> Model:
    """Return a copy of ``model`` that opens its turns in ``turns``; see :func:`speculate`."""
    mixins, clients, endpoint = _openai_part(model, tool_cache, dialect)
    copy = model.model_copy(update=clients)
    object.__setattr__(copy, "__class__", speculating_class(plain_class(type(model)), *mixins))
    copy._agentrt_state = ModelState(turns, endpoint)  # type: ignore[attr-defined]
    copy._agentrt_tools = None  # type: ignore[attr-defined]
    return copy


def _openai_part(
    model: BaseChatModel, tool_cache: object, dialect: Dialect | str | None
) -> tuple[Sequence[type], dict[str, Any], ToolCaches | None]:
    """Return what only a ``ChatOpenAI`` has: mixins of its class, clients with priorities, its tool cache.

    Raises:
        ConfigurationError: a setting cannot be used, or is set and the model is no ``ChatOpenAI``.
    """
    module = sys.modules.get("langchain_openai.chat_models.base")  # not imported for another model
    if module is None or not isinstance(model, module.BaseChatOpenAI):
        for name, setting in (("tool_cache", tool_cache), ("dialect", dialect)):
            if setting:
                raise ConfigurationError(
                    f"speculate({name}={setting!r}) is for ChatOpenAI, not {type(model).__name__}. Leave it "
                    "out; ChatAgentRT needs no dialect, and has its own tool_cache."
                )
        return (), {}, None
    import openai

    from ...stainless.client_class import prioritized_copy
    from ...stainless.tool_cache import ToolCaches
    from .chat_openai import ToolCacheChatOpenAI

    cache = ToolCaches.if_wanted(tool_cache, openai)
    endpoint = EndpointDialect(dialect)
    clients: dict[str, Any] = {}
    for root, resource in (("root_client", "client"), ("root_async_client", "async_client")):
        client: Any = getattr(model, root)
        if isinstance(client, openai.OpenAI | openai.AsyncOpenAI):
            clients[root] = prioritized_copy(client, endpoint)
            clients[resource] = clients[root].chat.completions
    return (ToolCacheChatOpenAI,), clients, cache


def report_of(model: Any) -> SpeculationReport:
    """Return the report of a model that :func:`speculate` returned, with or without tools bound.

    Raises:
        ConfigurationError: the model does not speculate.
    """
    while isinstance(model, RunnableBinding):
        model = model.bound
    return state_of(model, ModelState).turns.report()
