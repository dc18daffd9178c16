"""`SpeculationMiddleware`: speculation for an agent of `create_agent`, as one of its middleware."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from agentrt.adapting import Turns
from agentrt.config import SpeculationConfig
from agentrt.errors import ConfigurationError, MissingExtraError
from agentrt.reports import SpeculationObserver, SpeculationReport

from .model_state import Predictor
from .speculate import speculating_copy

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
except ModuleNotFoundError as error:
    raise MissingExtraError("langchain", "langgraph") from error

logger = logging.getLogger("agentrt")
_MAX_MODELS = 16
"""How many models of an agent are kept as speculating copies: one, and its fallbacks."""


class SpeculationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Speculates on the calls of an agent's ``@speculable`` tools, as :func:`speculate` does.

    ::

        agent = create_agent(model, tools, middleware=[SpeculationMiddleware(StreamSpeculator())])

    It hands each request on with a model that speculates: an instance of the same class, with the same
    settings. Only timing changes, and what stands between a call and its tool is found in the running graph,
    wherever the middleware stands in the list. A model that speculates already is left as it is. Middleware
    that replaces the model, such as ``ModelFallbackMiddleware``, belongs in front of it: behind it, what
    another model answers is not speculated on.
    """

    def __init__(
        self,
        predictors: Predictor | Sequence[Predictor],
        *,
        samples: int = 1,
        config: SpeculationConfig | None = None,
        observers: Sequence[SpeculationObserver] = (),
    ) -> None:
        """The parameters are those of :func:`speculate`.

        Raises:
            ConfigurationError: there is no predictor, or an argument cannot be used.
        """
        super().__init__()
        self._turns = Turns(
            predictors, samples=samples, config=config, observers=observers, others=(BaseChatModel,)
        )
        if not self._turns.predictors:
            raise ConfigurationError(
                "SpeculationMiddleware() needs at least one predictor. Give a Speculator."
            )
        self._copies: dict[int, tuple[BaseChatModel, dict[str, Any], BaseChatModel]] = {}
        """Models of the agent by their ids, with the fields that they had, and their speculating copies."""

    def report(self) -> SpeculationReport:
        """Return the report on the speculation in all runs of the agent so far."""
        return self._turns.report()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Let the model of the request speculate."""
        return handler(self._speculating(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """:meth:`wrap_model_call` in async code."""
        return await handler(self._speculating(request))

    def _speculating(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        model = request.model
        if getattr(model, "_agentrt_state", None) is not None:
            return request
        if not isinstance(model, BaseChatModel):
            logger.warning(
                "%s is no chat model, and its answers are not speculated on. Give create_agent the chat "
                "model itself.",
                type(model).__name__,
            )
            return request
        known = self._copies.get(id(model))
        if known is None or known[0] is not model or not _are_same(known[1], model.__dict__):
            known = model, dict(model.__dict__), speculating_copy(model, self._turns)
            self._copies.pop(id(model), None)
            for other in list(self._copies)[: 1 - _MAX_MODELS]:
                self._copies.pop(other, None)
            self._copies[id(model)] = known
        return request.override(model=known[2])


def _are_same(fields: dict[str, Any], others: dict[str, Any]) -> bool:
    return fields.keys() == others.keys() and all(fields[name] is others[name] for name in fields)
