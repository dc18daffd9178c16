"""agentrt for the OpenAI Agents SDK: `speculate` a model, or the provider of all models of a run.

::

    model = speculate(OpenAIChatCompletionsModel("gpt-5.4", AsyncOpenAI()), predictors)
    agent = Agent(name="assistant", model=model, tools=[get_weather])   # @speculable above @function_tool

Agents that name their models as text take them from the provider of the run::

    config = RunConfig(model_provider=speculate(MultiProvider(), predictors))
    result = await Runner.run(agent, "How is the weather in Oslo?", run_config=config)

Importing this module also makes :func:`agentrt.speculable` accept tools made by ``@function_tool``, and keeps
what the SDK does in the speculation of any session or adapter out of the user's traces.
"""

from __future__ import annotations

from agentrt.adapting import register_context_source, register_scope_source, register_tool_type
from agentrt.errors import MissingExtraError

try:
    from agents import FunctionTool
except ModuleNotFoundError as error:
    raise MissingExtraError("openai-agents", "openai-agents") from error

from .mcp_servers import speculable_server
from .runs import agents_run, silent_context
from .speculate import report_of, speculate
from .tools import make_speculable

__all__ = ["report_of", "speculable_server", "speculate"]

register_tool_type(FunctionTool, make_speculable)
register_scope_source(agents_run)
register_context_source(silent_context)
