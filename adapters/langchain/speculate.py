"""`speculate`: a chat model that runs predicted tool calls while it generates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding

from agentrt.config import SpeculationConfig
from agentrt.drafts import predictors_of
from agentrt.errors import ConfigurationError
from agentrt.reports.events import SpeculationObserver
from agentrt.reports.report import SpeculationReport
from agentrt.turns.shared import SharedState

from ..transparent_subclass import plain_class
from .model_state import ModelState, Predictor
from .speculating_model import speculating_class

if TYPE_CHECKING:
    from ..openai.tool_cache import ToolCacheEndpoint

Model = TypeVar("Model", bound=BaseChatModel)


def speculate(
    model: Model,
    predictors: Predictor | Sequence[Predictor],
    *,
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
    tool_cache: bool = False,
) -> Model:
    """Return a copy of ``model`` that speculates on the calls of ``@speculable`` tools.

    The copy is an instance of ``type(model)`` and works wherever the model does: in ``create_agent``, in a
    graph with a ``ToolNode``, sync, async or streamed. Only timing changes (SpecTools, Algorithm 2): while
    the model generates, the predictors predict its next call and the predicted tools run; when the model
    makes that call, the tool returns the result that is already there or on its way.

    ``predictors`` are speculators, chat models used as drafts, or a list of either; each takes ``samples``
    samples (λ). :func:`report_of` returns the report.

    With ``tool_cache``, a ``ChatOpenAI`` submits results of speculations to an endpoint that lists
    ``cache-tool-output`` among a model's capabilities, as ``agentrt serve`` does (SpecTools, Algorithm 4): in
    an answer streamed by chat completions (``ChatOpenAI(streaming=True)`` streams all) the endpoint answers
    the call itself and continues. As with ``ChatAgentRT(tool_cache=True)``, such calls pass through no node,
    interrupt or middleware: they are ``server_tool_call`` and ``server_tool_result`` blocks of the message. A
    streamed call then comes in one piece, when its turn ends. With any other endpoint, Algorithm 2 is used.

    Raises:
        ConfigurationError: ``model`` has its tools bound already, there is no predictor, ``samples`` is below
            1, or ``tool_cache`` is set for a model that is no ``ChatOpenAI``.
    """
    if isinstance(model, RunnableBinding):
        raise ConfigurationError(
            "speculate() needs the chat model itself. Call it first and bind_tools() on what it returns."
        )
    given = predictors_of(predictors, others=(BaseChatModel,))
    if not given:
        raise ConfigurationError("speculate() needs at least one predictor. Give a Speculator.")
    mixins, endpoint = _tool_cache_of(model) if tool_cache else ((), None)
    copy = model.model_copy()
    object.__setattr__(copy, "__class__", speculating_class(plain_class(type(model)), *mixins))
    shared = SharedState.create(samples, config, observers)
    copy._agentrt_state = ModelState(given, shared, endpoint)  # type: ignore[attr-defined]
    copy._agentrt_tools = None  # type: ignore[attr-defined]
    return copy


def report_of(model: Any) -> SpeculationReport:
    """Return the report of a model that :func:`speculate` returned, with or without tools bound.

    Raises:
        ConfigurationError: the model does not speculate.
    """
    while isinstance(model, RunnableBinding):
        model = model.bound
    state = getattr(model, "_agentrt_state", None)
    if state is None:
        raise ConfigurationError(f"{type(model).__name__} does not speculate. Pass it to speculate() first.")
    report: SpeculationReport = state.shared.reporter.report()
    return report


def _tool_cache_of(model: BaseChatModel) -> tuple[tuple[type], ToolCacheEndpoint]:
    """Return what a ``ChatOpenAI`` needs to submit results: the mixins of its class, and its endpoint."""
    with suppress(ModuleNotFoundError):  # without langchain-openai no model is a ChatOpenAI
        from langchain_openai.chat_models.base import BaseChatOpenAI

        from ..openai.tool_cache import ToolCacheEndpoint
        from .chat_openai import ToolCacheChatOpenAI

        if isinstance(model, BaseChatOpenAI):
            return (ToolCacheChatOpenAI,), ToolCacheEndpoint()
    raise ConfigurationError(
        f"speculate(tool_cache=True) is for ChatOpenAI, not {type(model).__name__}. Leave it out; for "
        "ChatAgentRT, set its own tool_cache."
    )
