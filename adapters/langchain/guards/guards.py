"""What stands between a model's tool call and its tool: approvals, middleware and interrupts of the graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from agentrt.adapting import Guards, SpeculableTool, speculable_tool
from agentrt.errors import ConfigurationError

from .graph import EnclosingGraph, branches_of, enclosing_graphs
from .interrupts import may_interrupt
from .node_code import (
    functions_of,
    is_exactly,
    is_function,
    is_marked,
    is_of_library,
    layers,
    mark,
    tool_node,
    written_functions,
)

Guard = TypeVar("Guard")
Decides: TypeAlias = "Callable[[_Function, str], bool]"
"""Whether a function that a call or its result passes may decide on it, by the name of the tool."""

_HARMLESS = (
    *("ContextEditingMiddleware", "FilesystemFileSearchMiddleware", "LLMToolSelectorMiddleware"),
    *("ModelCallLimitMiddleware", "ModelFallbackMiddleware", "ModelRetryMiddleware"),
    *("ProviderToolSearchMiddleware", "ShellToolMiddleware", "SpeculationMiddleware"),
    *("SummarizationMiddleware", "TodoListMiddleware", "ToolErrorMiddleware", "ToolRetryMiddleware"),
)
"""LangChain's middleware that neither prevents nor changes a call of a speculable tool, and agentrt's."""
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


def guards_in_graph(tools: Mapping[str, SpeculableTool]) -> Guards:
    """Return the guards of ``tools`` in the running graph, for a model request that is about to be sent.

    Raises:
        Exception: this version of LangGraph does not show them.
    """
    guards = _enclosing_guards()
    before = {name: next(_before_run(guards, tool), None) for name, tool in tools.items()}
    return Guards(
        {name: why for name, why in before.items() if why is not None},
        [name for name, tool in tools.items() if any(_before_result(guards, tool))],
    )


def _enclosing_guards() -> list[_Guards]:
    """Return those of the graphs around this code, the innermost first, up to a tool that has the model."""
    found = []
    for graph in enclosing_graphs():
        guards = _Guards(graph)
        if guards.runs_model_in_tool:  # its calls are the tool's own
            break
        found.append(guards)
    return found


def _before_run(guards: Sequence[_Guards], tool: SpeculableTool) -> Iterator[str]:
    """Yield why ``tool`` must not run before its call is approved."""
    if raises_before_tools(current_callbacks()):
        yield "a callback may raise before its run"
    for each, runners in _way(guards, tool.name, _decides_on_call):
        yield from each.before(runners, tool, _decides_on_call)


def _before_result(guards: Sequence[_Guards], tool: SpeculableTool) -> Iterator[str]:
    """Yield why the model must not receive the result of ``tool`` before that has passed the graph."""
    for each, runners in _way(guards, tool.name, _concerns):
        yield from each.before(runners, tool, _concerns)
        yield from each.after(runners, tool.name)


def _way(guards: Sequence[_Guards], tool: str, decides: Decides) -> Iterator[tuple[_Guards, Collection[str]]]:
    """Yield the graphs that a call of ``tool`` may pass, the innermost first, with the nodes that run it.

    These are each ``ToolNode`` that has the tool. Without one, it is the function that is the only node after
    the model; if there are others, none is known to run tools.
    """
    holding = [each for each in guards if each.holders(tool)]
    if holding:
        for each in [*guards[: guards.index(holding[0])], *holding]:
            yield each, each.holders(tool)
        return
    passed = []
    for each in guards:
        passed.append(each)
        if each.loops:  # the calls come back to the model from nodes of this graph
            break
    possible = [(each, name) for each in passed for name in each.possible_runners]
    for each in passed:
        runners = [name for owner, name in possible if owner is each and each.is_function(name)]
        yield each, runners if len(possible) == 1 else []


class _Guards:
    """The guards of one graph around the calls that the running node's model makes."""

    def __init__(self, graph: EnclosingGraph) -> None:
        self._graph = graph
        self._model = graph.node
        self._tool_nodes = {
            name: node for name in graph.nodes if (node := tool_node(graph.nodes[name].bound)) is not None
        }
        self._functions: dict[str, list[_Function]] = {}

    @property
    def runs_model_in_tool(self) -> bool:
        """Whether the code runs within a tool of a ``ToolNode`` of this graph."""
        return self._model in self._tool_nodes

    @functools.cached_property
    def possible_runners(self) -> list[str]:
        """Names of the nodes after the model that may run tools which no ``ToolNode`` has."""
        return [
            name
            for name in sorted(self._graph.edges.reached(self._model, self._model))
            if any(each.middleware is None for each in self._functions_of(name))
        ]

    def is_function(self, name: str) -> bool:
        """Whether a node runs a function of its author's, and nothing around it."""
        return is_function(self._graph.nodes[name].bound)

    @property
    def loops(self) -> bool:
        """Whether one of the nodes that may run tools leads back to the model."""
        return any(self._model in self._graph.edges.reached(name) for name in self.possible_runners)

    def holders(self, tool: str) -> list[str]:
        """Return the names of the nodes after the model that are a ``ToolNode`` with this tool."""
        reached = self._graph.edges.reached(self._model)
        return [
            name for name, node in self._tool_nodes.items() if name in reached and tool in node.tools_by_name
        ]

    def before(self, runners: Collection[str], tool: SpeculableTool, decides: Decides) -> Iterator[str]:
        """Yield what a call may have to pass from the model to ``runners``, or to the end without these."""
        graph, model = self._graph, self._model
        if graph.pauses("after", model):
            yield f"the graph is interrupted after {model!r}"
        for name in [model] if model in graph.nodes else graph.nodes:
            yield from self._around_model(name, tool.name, decides)
        for name in self._on_the_way(runners):
            if not self._before_the_model(name):
                yield from self._passing(name, tool.name, decides)
        for name in runners:
            yield from self._entering(name, tool, decides)

    def after(self, runners: Collection[str], tool: str) -> Iterator[str]:
        """Yield what a result of ``runners`` may have to pass on its way to the model."""
        graph, model = self._graph, self._model
        for runner in runners:
            if graph.pauses("after", runner) or graph.pauses("before", model):
                yield f"the graph is interrupted after {runner!r}"
            for name in graph.edges.between(runner, model):
                yield from self._passing(name, tool, _concerns_result)

    def _on_the_way(self, runners: Collection[str]) -> list[str]:
        """Return the nodes that a call may have to pass, and those that may end before its tool can run.

        These are the nodes of the model's step, and all nodes if one on the way waits for others. A person or
        a node may send the call to the model again. A ``ToolNode`` has answered it.
        """
        graph, model = self._graph, self._model
        names = set(graph.edges.reached(model, model, *runners))
        if runners:
            stops = {name: [model] * (name in self._tool_nodes) for name in names}
            names = {name for name in names if graph.edges.reached(name, *stops[name]) & set(runners)}
        if any(graph.waits(name) for name in names.union(runners)):
            names.update(name for name in graph.nodes if name not in ("__start__", model, *runners))
        return sorted(names | graph.beside)

    def _before_the_model(self, name: str) -> bool:
        """Whether a node is a method of middleware that calls of the model do not pass."""
        return name.endswith(_NOT_AFTER_THE_MODEL) and all(
            each.middleware for each in self._functions_of(name)
        )

    def _around_model(self, name: str, tool: str, decides: Decides) -> Iterator[str]:
        """Yield the middleware around the model, and whether code in its node interrupts the graph."""
        for each in self._functions_of(name):
            if each.middleware is not None and decides(each, tool) and not _keeps_answer(each.written):
                yield f"the middleware {each.middleware.name} has to let the call pass"
        yield from self._interrupting(name)

    def _entering(self, runner: str, tool: SpeculableTool, decides: Decides) -> Iterator[str]:
        if self._graph.pauses("before", runner):
            yield f"the graph is interrupted before {runner!r}"
        if runner not in self._tool_nodes:
            yield from self._interrupting(runner)
            return
        held = self._tool_nodes[runner].tools_by_name[tool.name]
        if speculable_tool(held) is not tool:
            yield f"{tool.name!r} in {runner!r} is another tool than the model's"
        if raises_before_tools(held.callbacks):
            yield "a callback of the tool may raise before its run"
        yield from self._deciding(runner, f"a wrapper of {runner!r}", tool.name, decides)

    def _passing(self, name: str, tool: str, decides: Decides) -> Iterator[str]:
        if self._graph.pauses("before", name) or self._graph.pauses("after", name):
            yield f"the graph is interrupted at {name!r}"
        yield from self._deciding(name, f"the node {name!r}", tool, decides)
        if any(map(may_interrupt, branches_of(self._graph.nodes[name]))):
            yield f"a branch behind {name!r} may interrupt the graph"

    def _deciding(self, name: str, place: str, tool: str, decides: Decides) -> Iterator[str]:
        for each in self._functions_of(name):
            if decides(each, tool):
                named = place if each.middleware is None else f"the middleware {each.middleware.name}"
                yield f"{named} has to let the call pass"

    def _interrupting(self, name: str) -> Iterator[str]:
        """Yield why the code of a node, or of a branch behind it, may interrupt the graph."""
        node = self._graph.nodes[name]
        if node not in _interrupting_nodes:
            _interrupting_nodes[node] = any(map(may_interrupt, (node.bound, *branches_of(node))))
        if _interrupting_nodes[node]:
            yield f"the node {name!r} may interrupt the graph"

    def _functions_of(self, name: str) -> list[_Function]:
        """Return the functions of a node; of a ``ToolNode``, those that it wraps around its calls."""
        if name not in self._functions:
            written = functions_of(self._graph.nodes[name].bound)
            if (node := self._tool_nodes.get(name)) is not None:
                written = written_functions(node._wrap_tool_call, node._awrap_tool_call)
            self._functions[name] = [_Function(each, _middleware_of(each)) for each in written]
        return self._functions[name]


_interrupting_nodes: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


class _Function:
    """A function that calls or results pass, and the middleware whose method it is."""

    def __init__(self, written: Any, middleware: Any) -> None:
        self.written = written
        self.middleware = middleware
        self.kind = _kind(middleware)


def _decides_on_call(each: _Function, tool: str) -> bool:
    """Whether a function that a call passes may decide on calls of ``tool``."""
    if any(map(is_marked, layers(each.written))) or is_marked(each.middleware):
        return False
    return _concerns(each, tool)


def _concerns(each: _Function, tool: str) -> bool:
    """Whether a function may decide on calls of ``tool``, or change their results."""
    if each.kind == "HumanInTheLoopMiddleware":
        return tool in each.middleware.interrupt_on
    if each.kind == "ToolCallLimitMiddleware":
        return each.middleware.tool_name in (None, tool)
    if each.kind == "PIIMiddleware":
        return bool(each.middleware.apply_to_output)
    return each.kind not in _HARMLESS


def _concerns_result(each: _Function, tool: str) -> bool:
    """Whether a function that results of ``tool`` pass on their way to the model may change them."""
    if each.kind == "PIIMiddleware":
        return bool(each.middleware.apply_to_tool_results)
    return each.kind not in _HARMLESS


def _kind(middleware: Any) -> str | None:
    """Return the name of a class of LangChain's or agentrt's; None for any other, also for a subclass."""
    if middleware is None:
        return None
    name = type(middleware).__name__
    own = name == "SpeculationMiddleware"
    module = "agentrt.adapters.langchain.speculation.middleware" if own else "langchain.agents.middleware"
    known = getattr(sys.modules.get(module), name, None)
    return name if isinstance(known, type) and is_exactly(middleware, known) else None


def _middleware_of(function: Any) -> Any:
    """Return the middleware whose method ``function`` is, or None."""
    types = sys.modules.get("langchain.agents.middleware.types")  # without it there is no middleware
    owner = getattr(layers(function)[-1], "__self__", None)
    return owner if types is not None and isinstance(owner, types.AgentMiddleware) else None


def _keeps_answer(function: Any) -> bool:
    """Whether ``function`` is a method made by ``dynamic_prompt``, or one that a middleware does not have."""
    method: Any = getattr(layers(function)[-1], "__func__", None)
    return is_of_library(method) and method.__qualname__.startswith(("dynamic_prompt.", "AgentMiddleware."))


_WITHOUT_EFFECT = (BaseCallbackHandler.on_tool_start, AsyncCallbackHandler.on_tool_start)


def current_callbacks() -> Any:
    """Return the callbacks of the running node or runnable: a list or manager of handlers, or None."""
    return (var_child_runnable_config.get() or {}).get("callbacks")


def raises_before_tools(callbacks: Any) -> bool:
    """Whether one of these callbacks may raise before a tool runs, so that the tool does not."""
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", [])
    return any(
        each.raise_error and not each.ignore_agent and type(each).on_tool_start not in _WITHOUT_EFFECT
        for each in handlers
    )
