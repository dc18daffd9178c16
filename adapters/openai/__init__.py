"""agentrt for tool loops on the OpenAI client: chat completions and responses, streamed or not.

::

    client = speculate(AsyncOpenAI(), predictors, tools=[search_notes, read_note])
    ...
    message = (await client.chat.completions.create(model=..., messages=..., tools=...)).choices[0].message
    results = [await arun_tool(client, call) for call in message.tool_calls or ()]

A sync client works alike, with :func:`run_tool`.
"""

from agentrt.adapting import register_scope_source

from .scopes import pydantic_ai_run
from .speculate import arun_tool, report_of, run_tool, speculate

__all__ = ["arun_tool", "report_of", "run_tool", "speculate"]

register_scope_source(pydantic_ai_run)
