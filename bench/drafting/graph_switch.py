"""Graphs of an NPU that change during prefill, in virtual time (sd.npu §3.2, Fig. 8).

No NPU was measured: the machine is ``simulated:core-ultra-5-125h``, whose times are computed from published
peak figures, and whose time to load a graph is an assumption that the second table varies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..common.report import Table

if TYPE_CHECKING:
    from agentrt.bench.simulation.simulation import Simulation
    from agentrt.runtime.heg.graph_switch import SwitchCosts

MACHINE: Final = "simulated:core-ultra-5-125h"
PROMPT_TOKENS: Final = 1024
"""Tokens of the prompt of the figure: eight chunks of this NPU."""
PROMPTS: Final = (128, 256, 512, PROMPT_TOKENS, 2048, 4096)
LOAD_FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
_ANSWER_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class GraphSwitchResult:
    """What :func:`measure_graph_switch` returns, for a report."""

    figures: dict[str, float]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """One request on a simulated machine, times in seconds."""

    first_token_s: float
    token_s: float
    """Time of each further token."""
    hidden_fraction: float


def measure_graph_switch(prompts: Sequence[int] = PROMPTS) -> GraphSwitchResult:
    """Simulate one request of each number of prompt tokens, with graphs that change and without.

    ``graph_switch_hidden_fraction`` is the share of the time to load all graphs for decoding during which the
    prompt of :data:`PROMPT_TOKENS` tokens is prefilled.
    """
    hidden = _run(PROMPT_TOKENS, npu_decoding=True).hidden_fraction
    return GraphSwitchResult(
        {"graph_switch_hidden_fraction": hidden}, (_prompts_table(prompts), _loads_table(prompts))
    )


def _prompts_table(prompts: Sequence[int]) -> Table:
    rows: list[tuple[float, ...]] = []
    for tokens in prompts:
        plain, switching = (_run(tokens, npu_decoding=decoding) for decoding in (False, True))
        rows.append(
            (
                tokens,
                _ms(plain.first_token_s),
                _ms(switching.first_token_s),
                round(switching.hidden_fraction, 3),
                _ms(plain.token_s),
                _ms(switching.token_s),
            )
        )
    return Table(
        title="graphs that change during prefill, simulated",
        columns=(
            "prompt tokens",
            "ms to the first token, GPU decodes",
            "ms to the first token, graphs change",
            "share of load time hidden",
            "ms a token, GPU decodes",
            "ms a token, NPU decodes",
        ),
        rows=tuple(rows),
    )


def _loads_table(prompts: Sequence[int]) -> Table:
    """The plans' latencies for load times around the assumed one."""
    from agentrt.runtime.heg.graph_switch import asynchronous_plan, greedy_plan, late_plan, synchronous_plan

    rows: list[tuple[float, ...]] = []
    for factor in LOAD_FACTORS:
        for tokens in prompts:
            costs = _costs(tokens, factor)
            plans = [plan(costs) for plan in (synchronous_plan, asynchronous_plan, greedy_plan, late_plan)]
            load_ms = _ms(max(costs.load_s))
            late = plans[-1]
            rows.append(
                (load_ms, tokens, *(_ms(plan.latency_s) for plan in plans), round(late.hidden_fraction, 3))
            )
    return Table(
        title="plans of graph changes: ms until the prompt is prefilled and all graphs are loaded",
        columns=(
            "ms to load a graph",
            "prompt tokens",
            "synchronous",
            "asynchronous",
            "greedy",
            "greedy, late start",
            "share of load time hidden, late start",
        ),
        rows=tuple(rows),
    )


def _run(tokens: int, *, npu_decoding: bool) -> _Run:
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority
    from agentrt.runtime.heg.graph_switch import hidden_fraction
    from agentrt.runtime.heg.kernel import StaticGraph

    simulated = _simulation(npu_decoding=npu_decoding)
    simulated.submit(SimulatedRequest(tokens, _ANSWER_TOKENS, Priority.REACTIVE))
    simulated.run()
    (output,) = simulated.outputs
    loads = [load for load in simulated.graph_loads if load.load.graph is StaticGraph.DECODE]
    decode_s = (output.ended - output.first_token) / (_ANSWER_TOKENS - 1)
    hidden = hidden_fraction(((load.started, load.ended) for load in loads), output.first_token)
    return _Run(output.first_token, decode_s, hidden)


def _simulation(*, npu_decoding: bool) -> Simulation:
    from agentrt.bench.simulation.platform import simulate
    from agentrt.bench.simulation.simulation import Simulation
    from agentrt.runtime.scheduler.policy import AGENT_XPU

    platform, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=npu_decoding)
    return Simulation(platform, graph, AGENT_XPU, blocks=4096, max_batch_size=8)


def _costs(tokens: int, load_factor: float) -> SwitchCosts:
    from agentrt.bench.simulation.platform import simulate

    _, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=True)
    assert graph.static_tokens is not None
    costs = graph.switch_costs(max(1, tokens // graph.static_tokens))
    return dataclasses.replace(costs, load_s=tuple(load_factor * seconds for seconds in costs.load_s))


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 1)
