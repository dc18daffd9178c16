"""The run that a model request or tool call belongs to, as pydantic-ai reports it."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any


def pydantic_ai_run() -> Hashable | None:
    """Return the key of pydantic-ai's current run; None if there is no run, or the library is not in use.

    It sends model requests and makes tool calls in tasks that have only the run's context in common.
    """
    module: Any = sys.modules.get("pydantic_ai._run_context")
    context = module.get_current_run_context() if hasattr(module, "get_current_run_context") else None
    run_id = getattr(context, "run_id", None)
    return None if run_id is None else ("pydantic-ai", run_id)
