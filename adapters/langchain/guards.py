"""What stands between a model's tool call and its tool: approvals, middleware and interrupts of the graph."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from agentrt.errors import ConfigurationError
from agentrt.tools.restrictions import Restrictions
from agentrt.tools.speculable_tool import SpeculableTool

from .graph import EnclosingGraph, enclosing_graphs
from .interrupts import may_interrupt
from .node_code import functions_of, is_marked, layers, mark, wrapped_functions

logger = logging.getLogger("agentrt")
Guard = TypeVar("Guard")
Decides: TypeAlias = Callable[[Any, str], bool]
"""Whether a function that a call or its result passes may decide on it, by the name of the tool."""

_UNREADABLE = "this version of LangGraph does not show the guards of its graphs"
_HARMLESS = (
    "ModelCallLimitMiddleware",
    "SummarizationMiddleware",
    "TodoListMiddleware",
    "ToolErrorMiddleware",
    "ToolRetryMiddleware",
)
"""LangChain's middleware that neither prevents nor changes a call of a speculable tool."""
_NOT_AFTER_THE_MODEL = (".before_agent", ".before_model", ".after_agent")


def allow_speculation(guard: Guard) -> Guard:
    """Declare that a middleware, ``ToolNode`` wrapper or node decides nothing about tool calls.

    Tools may then run speculatively before it has seen their call, as before a middleware that only logs or
    catches errors. It is a decorator, too; put it above ``@wrap_tool_call``. Returns ``guard``.

    Raises:
        ConfigurationError: ``guard`` cannot be marked: it takes no attributes.
    """
    try:
        mark(guard)
    except (AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"an object of type {type(guard).__name__} cannot be marked. Give a middleware, wrapper or node."
        ) from error
    return guard


def restrictions_in_graph(tools: Mapping[str, SpeculableTool], refused: Mapping[str, str]) -> Restrictions:
    """Return the restrictions on ``tools`` for a model request that is about to be sent.

    ``refused`` are those that must not run for other reasons. A tool that declares ``before_approval`` may
    run before the guards of the graph have let its call pass, but its result must wait for them.
    """
    try:
        guards = [_Guards(graph) for graph in enclosing_graphs()]
        guarded = {tool: reason for tool in tools if (reason := _first(guards, tool, "before_run"))}
        unapproved = frozenset(tool for tool in tools if _first(guards, tool, "before_result"))
    except Exception as error:  # noqa: BLE001 - unknown guards count as guards
        _warn_of(type(error).__name__)
        guarded, unapproved = dict.fromkeys(tools, _UNREADABLE), frozenset(tools)
    withheld = {name: why for name, why in guarded.items() if not tools[name].options.before_approval}
    return Restrictions({**withheld, **refused}, unapproved)


@functools.cache  # once for each kind of error; the report has it for each turn
def _warn_of(error: str) -> None:
    logger.warning(
        "no tool runs speculatively, but those with before_approval=True: %s (%s). "
        "Use a version of langgraph that agentrt's constraints.txt names.",
        _UNREADABLE,
        error,
    )


def _first(guards: Iterable[_Guards], tool: str, moment: str) -> str | None:
    """Return the first reason to wait: from the innermost graph out to the one that runs the tool."""
    for each in guards:
        reason: str | None = next(getattr(each, moment)(tool), None)
        if reason is not None or each.runs(tool):
            return reason
    return None


class _Guards:
    """The guards of one graph around the calls that the running node's model makes."""

    def __init__(self, graph: EnclosingGraph) -> None:
        self._graph = graph
        self._model = graph.node
        self._tool_nodes = {
            name: node for name in graph.nodes if (node := _tool_node(graph, name)) is not None
        }
        self._functions: dict[str, list[Any]] = {}

    def runs(self, tool: str) -> bool:
        """Whether this graph, and not one around it, runs the calls of ``tool``."""
        loops = self._graph.edges.reaches(self._model, self._model)
        return loops or self._model in self._tool_nodes or bool(self._holders(tool))

    def before_run(self, tool: str) -> Iterator[str]:
        """Yield why the tool must not run before its call is approved."""
        return self._on_the_way(tool, _decides_on_call)

    def before_result(self, tool: str) -> Iterator[str]:
        """Yield why the model must not receive the tool's result before that has passed the graph."""
        yield from self._on_the_way(tool, _concerns)
        graph, model = self._graph, self._model
        for holder in self._holders(tool):
            if graph.pauses_after(holder) or graph.pauses_before(model):
                yield f"the graph is interrupted after {holder!r}"
            for name in graph.edges.between(holder, model):
                yield from self._passing(name, tool, _concerns_result)

    def _on_the_way(self, tool: str, decides: Decides) -> Iterator[str]:
        graph, model = self._graph, self._model
        if model in self._tool_nodes:  # the calls of a model within a tool are the tool's own
            return
        if graph.pauses_after(model):
            yield f"the graph is interrupted after {model!r}"
        for name in [model] if model in graph.nodes else graph.nodes:
            yield from self._interrupting(name)
        holders = self._holders(tool)
        for holder in holders:
            yield from self._entering(holder, tool, decides)
            for name in graph.edges.between(model, holder) - set(holders):
                yield from self._passing(name, tool, decides)
        if not holders:
            yield from self._before_functions(tool, decides)

    def _before_functions(self, tool: str, decides: Decides) -> Iterator[str]:
        """Yield why to wait where no ``ToolNode`` has the tool: any function after the model may run it.

        One that leads only back to the model, or to the end, runs tools. Others may decide on the calls.
        """
        graph, model = self._graph, self._model
        seen, left = {model}, list(graph.edges.successors(model))
        while left:
            name = left.pop()
            if name in seen or name.endswith(_NOT_AFTER_THE_MODEL):
                continue
            seen.add(name)
            if name in self._tool_nodes:
                yield from self._entering(name, tool, decides)
            elif all(
                _middleware_of(each) is not None or is_marked(each) for each in self._functions_of(name)
            ):
                yield from self._passing(name, tool, decides)
                left += graph.edges.successors(name)
            elif graph.pauses_before(name):
                yield f"the graph is interrupted before {name!r}"
            elif graph.edges.successors(name) - {model, name}:
                yield f"the node {name!r} may decide on the calls of {model!r}"
            else:
                yield from self._interrupting(name)

    def _entering(self, holder: str, tool: str, decides: Decides) -> Iterator[str]:
        if self._graph.pauses_before(holder):
            yield f"the graph is interrupted before {holder!r}"
        for function in self._functions_of(holder):
            if decides(function, tool):
                yield f"{_name_of(function, f'a wrapper of {holder!r}')} has to let the call pass"

    def _passing(self, name: str, tool: str, decides: Decides) -> Iterator[str]:
        if self._graph.pauses_before(name) or self._graph.pauses_after(name):
            yield f"the graph is interrupted at {name!r}"
        for function in self._functions_of(name):
            if decides(function, tool):
                yield f"{_name_of(function, f'the node {name!r}')} has to let the call pass"

    def _interrupting(self, name: str) -> Iterator[str]:
        node = self._graph.nodes[name]
        if node not in _interrupting_nodes:
            _interrupting_nodes[node] = may_interrupt(node.bound)
        if _interrupting_nodes[node]:
            yield f"the node {name!r} may interrupt the graph"

    def _functions_of(self, name: str) -> list[Any]:
        """Return the functions of a node; of a ``ToolNode``, those that it wraps around its calls."""
        if name not in self._functions:
            node = self._tool_nodes.get(name)
            self._functions[name] = (
                functions_of(self._graph.nodes[name].bound)
                if node is None
                else [
                    function
                    for wrapper in (node._wrap_tool_call, node._awrap_tool_call)
                    for function in wrapped_functions(wrapper)
                ]
            )
        return self._functions[name]

    def _holders(self, tool: str) -> list[str]:
        """Return the names of the nodes after the model that are a ``ToolNode`` with this tool."""
        reaches = self._graph.edges.reaches
        return [
            name
            for name, node in self._tool_nodes.items()
            if tool in node.tools_by_name and reaches(self._model, name)
        ]


_interrupting_nodes: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def _decides_on_call(function: Any, tool: str) -> bool:
    """Whether ``function``, which a call passes, may decide on calls of ``tool``."""
    middleware = _middleware_of(function)
    if is_marked(function) or (middleware is not None and is_marked(middleware)):
        return False
    return _concerns(function, tool)


def _concerns(function: Any, tool: str) -> bool:
    """Whether ``function`` may decide on calls of ``tool``, or change their results."""
    middleware = _middleware_of(function)
    if _kind(middleware) == "HumanInTheLoopMiddleware":
        return tool in middleware.interrupt_on
    if _kind(middleware) == "ToolCallLimitMiddleware":
        return middleware.tool_name in (None, tool)
    if _kind(middleware) == "PIIMiddleware":
        return bool(middleware.apply_to_output)
    return _kind(middleware) not in _HARMLESS


def _concerns_result(function: Any, tool: str) -> bool:
    """Whether ``function``, which results of ``tool`` pass on their way to the model, may change them."""
    middleware = _middleware_of(function)
    if _kind(middleware) == "PIIMiddleware":
        return bool(middleware.apply_to_tool_results)
    return _kind(middleware) not in _HARMLESS


def _kind(middleware: Any) -> str | None:
    """Return the name of LangChain's own class of a middleware; None for any other, also for subclasses."""
    kind = type(middleware)
    return kind.__name__ if kind.__module__.startswith("langchain.agents.middleware.") else None


def _name_of(function: Any, place: str) -> str:
    middleware = _middleware_of(function)
    return place if middleware is None else f"the middleware {middleware.name}"


def _middleware_of(function: Any) -> Any:
    """Return the middleware whose method ``function`` is, or None."""
    types = sys.modules.get("langchain.agents.middleware.types")  # without it there is no middleware
    if types is not None:
        for layer in layers(function):
            owner = getattr(layer, "__self__", None)
            if isinstance(owner, types.AgentMiddleware):
                return owner
    return None


def _tool_node(graph: EnclosingGraph, name: str) -> Any:
    """Return the ``ToolNode`` that the node ``name`` runs, or None."""
    from langgraph.prebuilt import ToolNode

    runnable: Any = getattr(graph.nodes.get(name), "bound", None)
    while not isinstance(runnable, ToolNode) and hasattr(runnable, "bound"):
        runnable = runnable.bound
    return runnable if isinstance(runnable, ToolNode) else None
