"""A model request as the Agents SDK makes it, and what stands between its calls and their tools."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from agents import FunctionTool, Handoff, ModelSettings
from agents.models.interface import Model
from agents.tool import Tool

from agentrt import DraftRequest
from agentrt.adapting import Guards, SpeculableTool, offered_tools, speculable_tool
from agentrt.dialects import RESPONSES
from agentrt.errors import NotSpeculableError

from ..openai.request_body import answered_ids
from ..openai.response_history import ResponseHistory
from .mcp_servers import described_by_annotations
from .runs import why_input_is_unapproved
from .tools import described_by

_SIGNATURE = inspect.signature(Model.get_response)


@dataclass(frozen=True, eq=False)
class ModelRequest:
    """The arguments of ``get_response`` and ``stream_response`` that decide what the model may call."""

    instructions: str | None
    input: str | Sequence[Any]
    """Text, or a history in the shape of the responses API."""
    settings: ModelSettings
    tools: Sequence[Tool]
    handoffs: Sequence[Handoff[Any, Any]]
    previous_response_id: str | None

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Self:
        """Return the request of a call of either method with these arguments."""
        given = _SIGNATURE.bind(None, *args, **kwargs).arguments
        return cls(
            instructions=given["system_instructions"],
            input=given["input"],
            settings=given["model_settings"],
            tools=given["tools"],
            handoffs=given["handoffs"],
            previous_response_id=given["previous_response_id"],
        )

    @cached_property
    def function_tools(self) -> dict[str, FunctionTool]:
        """The function tools by name, without those that the model calls by a namespace."""
        tools = [tool for tool in self.tools if isinstance(tool, FunctionTool)]
        return {tool.name: tool for tool in tools if tool.qualified_name == tool.name}

    @cached_property
    def speculable(self) -> dict[str, SpeculableTool]:
        """The speculable tools by name.

        Raises:
            NotSpeculableError: a tool is not speculable but its function is.
        """
        found = {name: _described(tool) for name, tool in self.function_tools.items()}
        return {name: described for name, described in found.items() if described is not None}

    @property
    def offered(self) -> set[str] | None:
        """The names of the tools that the model may call; None if they cannot be read."""
        names = [getattr(tool, "name", None) for tool in self.tools]
        names += [handoff.tool_name for handoff in self.handoffs]
        return offered_tools([name for name in names if name], self.settings.tool_choice)

    @property
    def answered_ids(self) -> list[str]:
        """The ids of the calls whose results end the history."""
        return answered_ids(RESPONSES, self.body)

    @cached_property
    def body(self) -> dict[str, Any]:
        """The request in the shape of the responses API; a copy of the history as it is now."""
        tools = [
            (each.name, each.description, each.params_json_schema) for each in self.function_tools.values()
        ]
        tools += [(each.tool_name, each.tool_description, each.input_json_schema) for each in self.handoffs]
        return {
            "input": self.input if isinstance(self.input, str) else list(self.input),
            "instructions": self.instructions,
            "tools": [
                {"type": "function", "name": name, "description": description, "parameters": parameters}
                for name, description, parameters in tools
            ],
            "previous_response_id": self.previous_response_id,
        }

    def draft_request(self, history: ResponseHistory) -> DraftRequest:
        """Return the request in the form that predictors take; handoffs are tools there, as for the model."""
        return history.draft_request(self.body)


def _described(tool: FunctionTool) -> SpeculableTool | None:
    # Not by the public property, which copies the annotations.
    described = described_by(tool) or described_by_annotations(getattr(tool, "_mcp_annotations", None))
    if described is not None:
        # A copy under another name is another tool to the model; its own claims would not be found.
        return described if described.name == tool.name else None
    if speculable_tool(getattr(tool, "__wrapped__", None)) is not None:
        raise NotSpeculableError(
            f"{tool.name} has a speculable function but is not speculable itself: only the tool receives the "
            "call's id. Put @speculable above @function_tool."
        )
    return None


def guards_of(request: ModelRequest) -> Guards:
    """Return the guards of the speculable tools of a request that is about to be sent."""
    # Guardrails of the input run beside the first request, whose history ends with the user's words.
    of_input = None if request.answered_ids else why_input_is_unapproved()
    tools = {name: request.function_tools[name] for name in request.speculable}
    guarded = {name: why for name, tool in tools.items() if (why := of_input or _why_guarded(tool))}
    judged = {name for name, tool in tools.items() if tool.tool_output_guardrails}
    return Guards(guarded, judged)


def _why_guarded(tool: FunctionTool) -> str | None:
    if tool.needs_approval is not False:
        return "a person may have to approve its call"
    if tool.tool_input_guardrails:
        return "its input guardrails have to let the call pass"
    return None
