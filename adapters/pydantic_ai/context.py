"""What a tool that runs speculatively may know of its run."""

from __future__ import annotations

import copy
from typing import Any

from pydantic_ai.tools import RunContext

from agentrt.errors import SpeculationError

_KNOWN_BEFORE_THE_CALL = frozenset(
    {
        "agent",
        "conversation_id",
        "deadline",
        "deps",
        "instrumentation_version",
        "max_retries",
        "metadata",
        "model",
        "prompt",
        "remaining_time",
        "retries",
        "retry",
        "run_id",
        "run_step",
        "tool_name",
        "trace_include_content",
        "tracer",
        "usage",
        "usage_limits",
        "validation_context",
        "workspace",
    }
)


class SpeculativeContext(RunContext[Any]):
    """The context of a call that the model has not made yet.

    It has the run's own dependencies, a copy of its usage, and what else is the same for every call of the
    step. All other attributes, such as the messages, the call's id or the queue of messages, belong to the
    real call: reading one fails the speculation, and the tool runs when the model calls it.
    """

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute that is known before the call.

        Raises:
            SpeculationError: only the real call has it.
        """
        if name.startswith("_") or name in _KNOWN_BEFORE_THE_CALL:
            return super().__getattribute__(name)
        raise SpeculationError(
            f"a context has no {name} before the model has made the call. The tool runs when it is called."
        )


def speculative_context(context: RunContext[Any], *, name: str, tool: str, max_retries: int) -> Any:
    """Return the context of a speculative run.

    ``context`` is that of the step, ``name`` the tool's name for its own toolset and ``tool`` that for the
    model.
    """
    speculative = object.__new__(SpeculativeContext)
    vars(speculative).update(vars(context))
    vars(speculative).update(
        usage=copy.deepcopy(context.usage),
        tool_name=name,
        retry=context.retries.get(tool, 0),
        max_retries=max_retries,
    )
    return speculative
