"""What stands between a model's call and its tool: approvals, hooks and wrapper toolsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic_ai.capabilities import AbstractCapability, Hooks
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset

from agentrt.adapting import Guards
from agentrt.errors import ConfigurationError

from .claiming_toolset import toolsets_around
from .run_tool import RunTool

Guard = TypeVar("Guard", bound=Callable[..., Any])

_MARK = "__allows_speculation__"
_LIBRARY = "pydantic_ai"
_DURABLE = "pydantic_ai.durable_exec"
_DECIDING = (
    "before_tool_validate",
    "wrap_tool_validate",
    "after_tool_validate",
    "before_tool_execute",
    "wrap_tool_execute",
)
"""Hooks of capabilities that can stop or change a call before its tool runs."""
_UNAPPROVED = "a person has to approve its calls"


def allow_speculation(guard: Guard) -> Guard:
    """Declare that a capability's class, a toolset's class or a hook decides nothing about tool calls.

    Tools may then run speculatively before it has seen their call, as before one that only logs or measures.
    It is a decorator, too. Returns ``guard``.

    Raises:
        ConfigurationError: ``guard`` is neither a class nor a function.
    """
    if not callable(guard) or not hasattr(guard, "__qualname__"):
        raise ConfigurationError(
            f"an object of type {type(guard).__name__} cannot be marked. Give its class, or the hook."
        )
    setattr(getattr(guard, "__func__", guard), _MARK, True)
    return guard


def guards_of_run(context: RunContext[Any], tools: Mapping[str, RunTool]) -> Guards:
    """Return the guards of ``tools`` for a model request that is about to be sent."""
    reasons = {name: next(_reasons(context, name, tool), None) for name, tool in tools.items()}
    return Guards({name: reason for name, reason in reasons.items() if reason is not None})


def _reasons(context: RunContext[Any], name: str, tool: RunTool) -> Iterator[str]:
    """Yield why a call of a tool has to be seen by something else before the tool runs."""
    if tool.tool.tool_def.kind == "unapproved":
        yield _UNAPPROVED
    manager = context.tool_manager
    around = None if manager is None else toolsets_around(tool.claiming.leaf, manager.toolset)
    if around is None:
        yield "the toolsets around it cannot be read"
        return
    if any(_DURABLE in type(toolset).__module__ for toolset in (*around, tool.claiming.leaf.wrapped)):
        yield "a durable execution records its calls"
    runner = tool.runner
    for toolset in around:
        if _toolset_decides(toolset) and (runner is None or toolset is not runner.toolset):
            yield f"the toolset {type(toolset).__name__} has to let the call pass"
    seen = {name, tool.tool.tool_def.name, *(() if runner is None else (runner.tool_def.name,))}
    for capability in _capabilities(context.root_capability):
        if _capability_decides(capability, seen):
            yield f"the capability {type(capability).__name__} has to let the call pass"


def _toolset_decides(toolset: AbstractToolset[Any]) -> bool:
    if isinstance(toolset, ApprovalRequiredToolset):
        return True
    return not _is_marked(type(toolset)) and not _is_of_library(type(toolset).call_tool)


def _capabilities(root: AbstractCapability[Any] | None) -> list[AbstractCapability[Any]]:
    found: list[AbstractCapability[Any]] = []
    if root is not None:
        root.apply(found.append)
    return found


def _capability_decides(capability: AbstractCapability[Any], tools: Collection[str]) -> bool:
    if _is_marked(type(capability)):
        return False
    if any(not _is_of_library(getattr(type(capability), hook)) for hook in _DECIDING):
        return True
    return isinstance(capability, Hooks) and any(
        _hook_decides(entry, tools) for hook in _DECIDING for entry in capability._get(hook)
    )


def _hook_decides(entry: Any, tools: Collection[str]) -> bool:
    chosen = getattr(entry, "tools", None)
    return (chosen is None or not chosen.isdisjoint(tools)) and not getattr(entry.func, _MARK, False)


def _is_marked(kind: type) -> bool:
    return _MARK in vars(kind)  # a subclass may decide


def _is_of_library(function: Any) -> bool:
    module: str = function.__module__
    return module.partition(".")[0] == _LIBRARY
