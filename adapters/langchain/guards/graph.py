"""The LangGraph graphs in which a model request runs.

LangGraph gives the code of a node no public access to its graph. It does put a function into the run's
configuration that schedules tasks, and that function is bound to the loop which runs the graph: from there
this module reads the nodes, their edges and the interrupts of this invocation. A version of LangGraph without
it makes :func:`enclosing_graphs` raise.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables.config import var_child_runnable_config

from .node_code import tool_node


class Edges:
    """The edges between the nodes of a compiled graph; what has been asked once is kept."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        """Read the edges of ``nodes``; names of nodes are all that is kept of them.

        A node leads to any other if one of its branches does not declare its ends, and if it declares no exit
        at all: it may return ``Command(goto=...)``. To a node that no declared exit leads to, any may lead.
        A ``ToolNode`` has answered all calls of a message, so that only results go where its tools send them.
        """
        declared = {name: _declared_exits(node, nodes) for name, node in nodes.items()}
        # Nothing leads to the start, and only an error to what handles it (LangGraph 1.2).
        ends = {
            name
            for name, node in nodes.items()
            if "__start__" not in node.triggers and not getattr(node, "is_error_handler", False)
        }
        loose = ends.difference(*(targets for targets in declared.values() if targets))
        self._exits = {
            name: ends if targets is None else targets | loose for name, targets in declared.items()
        }
        self._of_calls = {
            name: (declared[name] or set()) if tool_node(nodes[name].bound) else exits
            for name, exits in self._exits.items()
        }
        self._reached: dict[tuple[str, frozenset[str]], frozenset[str]] = {}

    def reached(self, start: str, *avoiding: str) -> frozenset[str]:
        """Return the nodes that a call may come to after ``start`` before any of ``avoiding``."""
        key = start, frozenset(avoiding)
        if key not in self._reached:
            found: set[str] = set()
            left = list(self._of_calls.get(start, ()))
            while left:
                name = left.pop()
                if name not in found and name not in avoiding:
                    found.add(name)
                    left += self._of_calls.get(name, ())
            self._reached[key] = frozenset(found)
        return self._reached[key]

    def between(self, start: str, end: str) -> frozenset[str]:
        """Return the nodes that results of ``start`` may come to before ``end``."""
        exits = self._exits.get(start, set()) - {start, end}
        passed = exits.union(*(self.reached(name, start, end) for name in exits))
        return frozenset(name for name in passed if end in self.reached(name, start))


@dataclass(frozen=True)
class EnclosingGraph:
    """A running graph, from one of its nodes.

    ``node`` is the name of the node, or of a task of the functional API, in which the code runs; ``beside``
    are the nodes of the same step. ``interrupt_before`` and ``interrupt_after`` are those of this invocation:
    names of nodes, or "*".
    """

    nodes: Mapping[str, Any]
    channels: Mapping[str, Any]
    edges: Edges
    node: str
    beside: frozenset[str]
    interrupt_before: str | Collection[str]
    interrupt_after: str | Collection[str]

    def waits(self, name: str) -> bool:
        """Whether this node starts only after others than the one that leads to it: joined, or deferred."""
        from langgraph.channels import EphemeralValue

        return any(
            type(self.channels[channel]) is not EphemeralValue for channel in self.nodes[name].triggers
        )

    def pauses(self, moment: str, name: str) -> bool:
        """Whether the graph interrupts "before" or "after" this node."""
        chosen = self.interrupt_before if moment == "before" else self.interrupt_after
        return chosen == "*" or name in chosen


_edges: WeakKeyDictionary[Any, Edges] = WeakKeyDictionary()


def _edges_of(nodes: Mapping[str, Any]) -> Edges:
    key = next(iter(nodes.values()))  # the nodes of a compiled graph stay the same
    if key not in _edges:
        _edges[key] = Edges(nodes)
    return _edges[key]


def enclosing_graphs() -> list[EnclosingGraph]:
    """Return the graphs in which this code runs, the innermost first; none outside of LangGraph.

    Raises:
        Exception: LangGraph does not show them in the way that this module knows.
    """
    found = []
    configurable = (var_child_runnable_config.get() or {}).get("configurable") or {}
    while "__pregel_task_id" in configurable:
        schedule = _bound_call(configurable["__pregel_call"])
        task, loop = schedule.args[0](), schedule.keywords["schedule_task"].__self__
        nodes, beside = loop.nodes, frozenset[str]()
        if task.name in nodes:  # no task of the functional API
            others = {other.name for other in loop.tasks.values()} - {task.name}
            beside = frozenset(others.intersection(nodes))
        graph = EnclosingGraph(
            nodes,
            loop.channels,
            _edges_of(nodes),
            task.name,
            beside,
            loop.interrupt_before,
            loop.interrupt_after,
        )
        found.append(graph)
        # The loop's own configuration is that of the node which runs this graph as a subgraph.
        configurable = loop.config["configurable"]
    return found


def _bound_call(call: Any) -> functools.partial[Any]:
    """Return the partial function that schedules tasks; a node with a timeout has it in a closure."""
    if isinstance(call, functools.partial):
        return call
    return next(
        cell.cell_contents for cell in call.__closure__ if isinstance(cell.cell_contents, functools.partial)
    )


def branches_of(node: Any) -> list[Any]:
    """Return the runnables that choose where a node leads to: those of its conditional edges."""
    owners: list[Any] = [getattr(getattr(writer, "func", None), "__self__", None) for writer in node.writers]
    return [owner.path for owner in owners if hasattr(owner, "path")]


def _declared_exits(node: Any, nodes: Mapping[str, Any]) -> set[str] | None:
    """Return the nodes that a node says to lead to; None if it may lead to others."""
    channels = [_channels(writer) for writer in node.writers]
    written = {channel for each in channels for channel in each or ()}
    if None in channels or not written:
        return None
    return {name for name, each in nodes.items() if not written.isdisjoint(each.triggers)}


def _channels(writer: Any) -> set[str] | None:
    """Return the channels that a writer of a node may write; None if that is not declared."""
    from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
    from langgraph.types import Send

    declared = ChannelWrite.get_static_writes(writer)
    if isinstance(writer, ChannelWrite):
        if any(isinstance(entry, Send) for entry in writer.writes):
            return None
        fixed = {entry.channel for entry in writer.writes if isinstance(entry, ChannelWriteEntry)}
        return fixed | {write[0] for write in declared or ()}
    return None if declared is None and ChannelWrite.is_writer(writer) else {w[0] for w in declared or ()}
