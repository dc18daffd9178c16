"""agentrt for agents of pydantic-ai: one capability, and the agent stays as it is.

::

    speculation = SpeculateTools(StreamSpeculator(), tools=["get_weather"])
    agent = Agent(model, tools=[get_weather, send_mail], capabilities=[speculation])
    ...
    print(speculation.report())

It works with every model and in every run: ``run``, ``run_sync``, ``run_stream``, ``run_stream_events`` and
``iter``. Importing this module also makes :func:`agentrt.speculable` accept functions that take a
``RunContext``.
"""

from agentrt.adapting import register_tool_type
from agentrt.errors import MissingExtraError

try:
    from pydantic_ai import RunContext
except ModuleNotFoundError as error:
    raise MissingExtraError("pydantic-ai-slim", "pydantic-ai") from error

from .capability import SpeculateTools
from .guards import allow_speculation
from .run_tool import declare_with_context

__all__ = ["SpeculateTools", "allow_speculation"]

register_tool_type(RunContext, declare_with_context)
