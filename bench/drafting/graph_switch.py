"""Graphs of an NPU that change during prefill, in virtual time (sd.npu §3.2, Fig. 8).

No NPU was measured: the machine is ``simulated:core-ultra-5-125h``, whose times are computed from published
peak figures, and whose time to load a graph is an assumption.
"""

from __future__ import annotations

from typing import Final

MACHINE: Final = "simulated:core-ultra-5-125h"
PROMPT_TOKENS: Final = 1024
"""Tokens of the prompt of the figure: eight chunks of this NPU."""
_ANSWER_TOKENS: Final = 64


def graph_switch_hidden_fraction(prompt_tokens: int = PROMPT_TOKENS) -> float:
    """Return the share of the time to load all graphs for decoding during which a prompt is prefilled."""
    from agentrt.bench.simulation.platform import simulate
    from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
    from agentrt.priority import Priority
    from agentrt.runtime.heg.graph_switch import hidden_fraction
    from agentrt.runtime.heg.kernel import StaticGraph
    from agentrt.runtime.scheduler.policy import AGENT_XPU

    platform, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=True)
    simulated = Simulation(platform, graph, AGENT_XPU, blocks=4096, max_batch_size=8)
    simulated.submit(SimulatedRequest(prompt_tokens, _ANSWER_TOKENS, Priority.REACTIVE))
    simulated.run()
    (output,) = simulated.outputs
    loads = [load for load in simulated.graph_loads if load.load.graph is StaticGraph.DECODE]
    return hidden_fraction(((load.started, load.ended) for load in loads), output.first_token)
