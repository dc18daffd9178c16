"""`SpeculateTools`: the capability that lets an agent's tools run while its model generates."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, Unpack

from pydantic_ai.agent import AgentRunResult
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, WrapRunHandler
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.tools import AgentDepsT, RunContext, ToolSelector
from pydantic_ai.toolsets import AbstractToolset

from agentrt.adapting import SpeculableKeywords, SpeculableOptions, Turns
from agentrt.config import SpeculationConfig
from agentrt.drafts import Speculator
from agentrt.errors import ConfigurationError
from agentrt.reports import SpeculationObserver, SpeculationReport

from .agent_run import AgentRun
from .claiming_toolset import ClaimingToolset
from .speculating_model import SpeculatingModel
from .tool_choice import SpeculableTools


@dataclass(init=False, repr=False, eq=False)
class SpeculateTools(AbstractCapability[AgentDepsT]):
    """A capability that runs the tools of predicted calls while the model generates (SpecTools, Algorithm 2).

    When the model makes a predicted call, the tool returns the result that is already there or on its way;
    the transcript is the same with and without the capability. It is given to an agent or to one run, by
    ``capabilities=[...]``. One instance serves any number of agents and runs at one time.

    A tool runs speculatively if its function is declared ``@speculable``, or if ``tools`` selects it. Hooks,
    wrapper toolsets and approvals see exactly the calls that the model makes, and a tool whose call they may
    stop or change is not run before them; see :func:`allow_speculation`.
    """

    def __init__(
        self,
        predictors: Speculator | Sequence[Speculator],
        *,
        tools: ToolSelector[AgentDepsT] = (),
        samples: int = 1,
        config: SpeculationConfig | None = None,
        observers: Sequence[SpeculationObserver] = (),
        **options: Unpack[SpeculableKeywords],
    ) -> None:
        """``tools`` selects further tools that are stateless and cheap, in the way of pydantic-ai.

        It is a list of the names that the model sees, a dict of the tools' metadata, a function of the run's
        context and the tool's definition, or ``"all"``. The read-only tools of MCP servers that you trust are
        ``{"annotations": {"readOnlyHint": True}}``. ``options`` are those of :func:`agentrt.speculable` for
        the selected tools. ``samples`` is the number of drafts that each predictor samples (SpecTools' λ).

        A name that none of an agent's function tools has raises :class:`ConfigurationError` in its run.

        Raises:
            ConfigurationError: there is no predictor, ``tools`` is none of these, ``samples`` is below 1,
                ``config`` sets ``turn_ahead``, or an option is unknown or has an invalid value.
        """
        self._turns = Turns(
            predictors,
            samples=samples,
            config=config,
            observers=observers,
            without_ahead="SpeculateTools sends no model request ahead. Leave turn_ahead out, or speculate "
            "on the model's OpenAI client with agentrt.adapters.openai.",
        )
        if not self._turns.predictors:
            raise ConfigurationError("SpeculateTools() needs at least one predictor. Give a Speculator.")
        self._speculable = SpeculableTools(tools, SpeculableOptions(**dict[str, Any](options)))
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._run: AgentRun | None = None

    __eq__ = object.__eq__  # not by the fields of the base class, which say nothing of the predictors
    __hash__ = object.__hash__

    def report(self) -> SpeculationReport:
        """Return the report on the speculation in all runs so far."""
        return self._turns.report()

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: predictors cannot be written in an agent's specification."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Return the outermost position: the model is timed with all that other capabilities do around it."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Self:
        """Return a copy for one run, with claims of its own."""
        of_run = copy.copy(self)
        of_run._run = AgentRun(self._turns, self._speculable, self._slots)
        return of_run

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Return the agent's toolsets, each within one whose calls claim speculations."""
        return toolset.visit_and_replace(ClaimingToolset)

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return a model that speculates while ``model`` answers; None outside of a run of this process."""
        return None if self._run is None else SpeculatingModel(model, self._run)

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Take the tools of the request; the request itself stays as it is."""
        if self._run is not None:
            await self._run.take_tools(ctx)
        return request_context

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run the agent, and then end all speculations of the run."""
        try:
            return await handler()
        finally:
            if self._run is not None:
                await self._run.aclose()
