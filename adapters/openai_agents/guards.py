"""What stands between a model's call and its tool in the Agents SDK: approvals and guardrails."""

from __future__ import annotations

from agents import FunctionTool

from agentrt.adapting import Guards

from .model_request import ModelRequest
from .runs import why_input_is_unapproved


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
