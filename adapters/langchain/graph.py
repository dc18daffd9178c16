"""The LangGraph graphs in which a model request runs.

LangGraph gives the code of a node no public access to its graph. It does put a function into the run's
configuration that schedules tasks, and that function is bound to the loop which runs the graph: from there
this module reads the nodes, their edges and the interrupts of this invocation. A version of LangGraph without
it makes :func:`enclosing_graphs` raise.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables.config import var_child_runnable_config


class Edges:
    """The edges between the nodes of a compiled graph; what has been asked once is kept."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        """Read the edges of ``nodes``; names of nodes are all that is kept of them."""
        self._onward = _read_edges(nodes)
        self._backward: dict[str, set[str]] = {}
        for name, targets in self._onward.items():
            for target in targets:
                self._backward.setdefault(target, set()).add(name)
        self._between: dict[tuple[str, str], frozenset[str]] = {}
        self._reaches: dict[tuple[str, str], bool] = {}

    def successors(self, name: str) -> frozenset[str]:
        """Return the nodes that may run next after the node ``name``; empty if there is none."""
        return self._onward.get(name, frozenset())

    def between(self, start: str, end: str) -> frozenset[str]:
        """Return the nodes on ways from ``start`` to ``end`` that pass through neither on the way."""
        if (start, end) not in self._between:
            onward = _reached(start, end, self._onward)
            self._between[start, end] = onward & _reached(end, start, self._backward)
        return self._between[start, end]

    def reaches(self, start: str, end: str) -> bool:
        """Whether there is a way from ``start`` to ``end``."""
        if (start, end) not in self._reaches:
            passed = {start} | _reached(start, end, self._onward)
            self._reaches[start, end] = any(end in self.successors(name) for name in passed)
        return self._reaches[start, end]


@dataclass(frozen=True)
class EnclosingGraph:
    """A running graph, from one of its nodes.

    ``node`` is the name of the node, or of a task of the functional API, in which the code runs.
    ``interrupt_before`` and ``interrupt_after`` are those of this invocation: names of nodes, or "*".
    """

    nodes: Mapping[str, Any]
    edges: Edges
    node: str
    interrupt_before: str | Collection[str]
    interrupt_after: str | Collection[str]

    def pauses_before(self, name: str) -> bool:
        """Whether the graph interrupts before this node."""
        return self.interrupt_before == "*" or name in self.interrupt_before

    def pauses_after(self, name: str) -> bool:
        """Whether the graph interrupts after this node."""
        return self.interrupt_after == "*" or name in self.interrupt_after


_edges: WeakKeyDictionary[Any, Edges] = WeakKeyDictionary()


def _edges_of(nodes: Mapping[str, Any]) -> Edges:
    key = next(iter(nodes.values()))  # the nodes of a compiled graph stay the same
    if key not in _edges:
        _edges[key] = Edges(nodes)
    return _edges[key]


def _reached(start: str, end: str, edges: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return the nodes that can be reached from ``start`` without passing ``end``, without both."""
    found: set[str] = set()
    left = list(edges.get(start, ()))
    while left:
        name = left.pop()
        if name not in found and name not in (start, end):
            found.add(name)
            left += edges.get(name, ())
    return frozenset(found)


def enclosing_graphs() -> list[EnclosingGraph]:
    """Return the graphs in which this code runs, the innermost first; none outside of LangGraph.

    Raises:
        Exception: LangGraph does not show them in the way that this module knows.
    """
    return list(_graphs((var_child_runnable_config.get() or {}).get("configurable") or {}))


def _graphs(configurable: Mapping[str, Any]) -> Iterator[EnclosingGraph]:
    while "__pregel_task_id" in configurable:
        schedule = _bound_call(configurable["__pregel_call"])
        task, loop = schedule.args[0](), schedule.keywords["schedule_task"].__self__
        yield EnclosingGraph(
            loop.nodes, _edges_of(loop.nodes), task.name, loop.interrupt_before, loop.interrupt_after
        )
        # The loop's own configuration is that of the node which runs this graph as a subgraph.
        configurable = loop.config["configurable"]


def _bound_call(call: Any) -> functools.partial[Any]:
    """Return the partial function that schedules tasks; a node with a timeout has it in a closure."""
    if isinstance(call, functools.partial):
        return call
    return next(
        cell.cell_contents for cell in call.__closure__ if isinstance(cell.cell_contents, functools.partial)
    )


def _read_edges(nodes: Mapping[str, Any]) -> Mapping[str, frozenset[str]]:
    """Return each node's possible successors.

    A branch whose ends are not declared may lead to any node, and so may ``Command(goto=...)``: to a node
    without an edge leading to it, every other node may.
    """
    triggered: dict[str, set[str]] = {}
    for name, node in nodes.items():
        for channel in node.triggers:
            triggered.setdefault(channel, set()).add(name)
    edges: dict[str, set[str]] = {}
    for name, node in nodes.items():
        channels = [_channels(writer) for writer in node.writers]
        if None in channels:
            edges[name] = set(nodes)
        else:
            written = {channel for each in channels for channel in each or ()}
            edges[name] = {target for channel in written for target in triggered.get(channel, ())}
    pointed_at = {target for targets in edges.values() for target in targets}
    loose = {
        name
        for name, node in nodes.items()
        if name not in pointed_at
        and "__start__" not in node.triggers
        and not getattr(node, "is_error_handler", False)  # LangGraph 1.2 has it
    }
    return {name: frozenset(targets | loose) for name, targets in edges.items()}


def _channels(writer: Any) -> set[str] | None:
    """Return the channels that a writer of a node may write; None if that is not declared."""
    from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry

    declared = ChannelWrite.get_static_writes(writer)
    if isinstance(writer, ChannelWrite):
        fixed = {entry.channel for entry in writer.writes if isinstance(entry, ChannelWriteEntry)}
        return fixed | {write[0] for write in declared or ()}
    return None if declared is None and ChannelWrite.is_writer(writer) else {w[0] for w in declared or ()}
