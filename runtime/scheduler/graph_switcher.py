"""Decides which graph each op group of the PREFILL XPU has, and when it changes (sd.npu §3.2). No I/O.

The groups change to the graph for decoding while the last prompt chunks compute, in the order of
:func:`choose_load`, and back to the graph for chunks while there is no work or much to prefill. Any mixture
of graphs computes any batch; the graphs decide only how long it takes.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from ..heg.graph import ExecutionGraph
from ..heg.graph_switch import choose_load, switch_seconds
from ..heg.kernel import GraphLoad, StaticGraph

_SWITCH_BACK: Final = 2.0
"""The groups change back while the prompts take this many times as long as changing all groups: there and
back."""


class PrefillWork(NamedTuple):
    """What the PREFILL XPU is known to prefill."""

    chunks: float
    """Chunks of the static shape that have not started; infinite while requests wait for KV blocks."""
    group: int | None
    """The op group that a chunk in progress runs or waits for; None if there is no such chunk."""


class GraphSwitcher:
    """The graphs of the op groups of one model, and the load in progress: at most one."""

    def __init__(self, graph: ExecutionGraph) -> None:
        """Each op group starts with the graph for prompt chunks, the only one if ``graph`` has no others."""
        self._graph = graph
        self._kernels = graph.token_kernels if graph.decode_tokens is not None else ()
        self._graphs = [StaticGraph.PREFILL] * len(self._kernels)
        self._target = StaticGraph.PREFILL
        self._failed: set[GraphLoad] = set()
        self.loading: GraphLoad | None = None
        """The load in progress."""
        self.update_costs()

    @property
    def has_two_graphs(self) -> bool:
        """Whether there is a graph for decoding beside that for prompt chunks."""
        return bool(self._kernels)

    def update_costs(self) -> None:
        """Decide by the present costs of the graph."""
        if not self._kernels:
            return
        costs = self._graph.switch_costs()
        self._load_s = costs.load_s
        self._seconds = {StaticGraph.PREFILL: costs.prefill_s, StaticGraph.DECODE: costs.repeated_s}
        self._chunk_s = sum(costs.prefill_s)
        self._switch_s = switch_seconds(costs)

    def next_load(self, work: PrefillWork | None) -> GraphLoad | None:
        """Return the load to start now, which is then in progress; None if none is to be started.

        ``work`` is None while there are no unfinished requests.
        """
        if self.loading is not None:
            return None
        self._choose_target(work)
        pending = [
            group
            for group, graph in enumerate(self._graphs)
            if graph is not self._target and self._order(group) not in self._failed
        ]
        upcoming = [] if work is None else self._upcoming(work)
        choice = choose_load(pending, self._load_s, upcoming)
        if choice is not None:
            self.loading = self._order(choice[0])
        return self.loading

    def end_load(self, load: GraphLoad, *, failed: bool) -> None:
        """Note the end of a load. One that ``failed`` is not tried again."""
        self.loading = None
        if failed:
            self._failed.add(load)
        else:
            self._graphs[load.group] = load.graph
        self._update_route()

    def reset(self) -> None:
        """Note that every op group has its graph for prompt chunks, but for a load in progress."""
        if self._kernels:
            self._graphs = [StaticGraph.PREFILL] * len(self._kernels)
            self._update_route()

    def _order(self, group: int) -> GraphLoad:
        return GraphLoad(self._kernels[group], self._target)

    def _choose_target(self, work: PrefillWork | None) -> None:
        """Choose the graph that the groups are to have. In between, they keep changing as they do."""
        if work is None or any(load.graph is StaticGraph.DECODE for load in self._failed):
            self._target = StaticGraph.PREFILL
            return
        left_s = work.chunks * self._chunk_s
        if work.group is not None:
            left_s += sum(self._seconds[StaticGraph.PREFILL][work.group :])
        if left_s <= self._switch_s:
            self._target = StaticGraph.DECODE
        elif left_s >= _SWITCH_BACK * self._switch_s:
            self._target = StaticGraph.PREFILL

    def _upcoming(self, work: PrefillWork) -> list[tuple[int, float]]:
        """The runs of op groups to come, as many as one load can need."""
        needed = math.ceil(max(self._load_s) / max(self._chunk_s, math.ulp(1.0))) + 1
        groups = [] if work.group is None else list(range(work.group, len(self._kernels)))
        groups += [*range(len(self._kernels))] * int(min(work.chunks, needed))
        return [(group, self._seconds[self._graphs[group]][group]) for group in groups]

    def _update_route(self) -> None:
        self._graph.decodes_split = all(graph is StaticGraph.DECODE for graph in self._graphs)
