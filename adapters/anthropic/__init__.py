"""agentrt for tool loops on the Anthropic client: messages, whole, streamed, parsed or of its tool runner.

::

    client = speculate(AsyncAnthropic(), predictors, tools=[search_notes, read_note])
    ...
    message = await client.messages.create(model=..., max_tokens=..., messages=..., tools=...)
    results = [await arun_tool(client, block) for block in message.content if block.type == "tool_use"]

A sync client works alike, with :func:`run_tool`.
"""

from ..stainless.client_class import prioritized
from ..stainless.client_state import report_of
from .speculate import arun_tool, run_tool, speculate

__all__ = ["arun_tool", "prioritized", "report_of", "run_tool", "speculate"]
