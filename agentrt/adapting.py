"""What an adapter of an agent framework is made of: those of :mod:`agentrt.adapters` use nothing else.

The guide "Write an adapter" shows a whole one. It has two sides:

*The model.* :class:`Turns` has the settings and the report. Its :meth:`~Turns.start` opens a :class:`Turn`
beside each model request; :meth:`Turn.observe` shows the predictors a streamed answer, and :meth:`Turn.bind`
takes the calls of the answer. :class:`Guards` says what has to approve a call first, :func:`offered_tools`
which tools a request offers, and a :class:`ModelRequest` is one that can be sent ahead of its turn.

*The tools.* A :class:`SpeculableTool` describes a tool of the framework: how its arguments are validated and
how it runs. When a call reaches the tool, :meth:`SpeculableTool.claim` or :meth:`~SpeculableTool.aclaim`
answers it from its speculation, or else by running the tool. :func:`register_tool_type` lets
:func:`agentrt.speculable` take the framework's tools; :class:`Toolbox` makes the calls of code without one.

A call is answered only within the run that has made it: see :func:`current_scope`,
:func:`register_scope_source` and :class:`Run`.
"""

from .concurrency.detached import register_context_source
from .concurrency.threads import start_in_thread
from .lookahead.model_request import ModelRequest, request_key
from .tools.real_call import current_speculative_run, is_hidden_run
from .tools.restrictions import Guards, offered_tools
from .tools.scopes import (
    current_scope,
    expected_tool_seconds,
    register_scope_source,
    reserve_turn,
    within_scope,
)
from .tools.speculable import claiming_function, plain_function, register_tool_type, running, speculable_tool
from .tools.speculable_tool import Invocation, SpeculableKeywords, SpeculableOptions, SpeculableTool
from .tools.toolbox import Toolbox
from .tools.writes import write_log
from .turns.session import answered_ids
from .turns.turn import Turn
from .turns.turns import Run, Turns

__all__ = [
    "Guards",
    "Invocation",
    "ModelRequest",
    "Run",
    "SpeculableKeywords",
    "SpeculableOptions",
    "SpeculableTool",
    "Toolbox",
    "Turn",
    "Turns",
    "answered_ids",
    "claiming_function",
    "current_scope",
    "current_speculative_run",
    "expected_tool_seconds",
    "is_hidden_run",
    "offered_tools",
    "plain_function",
    "register_context_source",
    "register_scope_source",
    "register_tool_type",
    "request_key",
    "reserve_turn",
    "running",
    "speculable_tool",
    "start_in_thread",
    "within_scope",
    "write_log",
]
