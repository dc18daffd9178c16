"""agentrt for tool loops on the OpenAI client: chat completions and responses, streamed or not.

::

    client = speculate(AsyncOpenAI(), predictors, tools=[search_notes, read_note])
    ...
    message = (await client.chat.completions.create(model=..., messages=..., tools=...)).choices[0].message
    results = [await arun_tool(client, call) for call in message.tool_calls or ()]

A sync client works alike, with :func:`run_tool`.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

from agentrt.adapting import register_scope_source

from ..stainless.client_class import prioritized
from ..stainless.client_state import report_of
from .speculate import arun_tool, run_tool, speculate

__all__ = ["arun_tool", "prioritized", "report_of", "run_tool", "speculate"]


def pydantic_ai_run() -> Hashable | None:
    """Return the key of pydantic-ai's current run; None if there is no run, or the library is not in use.

    It sends model requests and makes tool calls in tasks that have only the run's context in common.
    """
    module: Any = sys.modules.get("pydantic_ai._run_context")
    context = module.get_current_run_context() if hasattr(module, "get_current_run_context") else None
    run_id = getattr(context, "run_id", None)
    return None if run_id is None else ("pydantic-ai", run_id)


register_scope_source(pydantic_ai_run)
