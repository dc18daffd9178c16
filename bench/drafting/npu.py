"""Drafts on an NPU that decodes, in virtual time: sd.npu's ablation (Tables 3 and 4) and energy (Fig. 11).

The passes are those of a real model, which verifies all that is drafted, up to the tokens that the NPU's
graph for decoding computes at once. What they take is what the simulated machine takes for its own model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ..common.report import Cell, Table
from .answering import Answer, AnsweringRuntime
from .prompt_sets import PromptSet
from .sides import FromLogits, Vanilla

MACHINE: Final = "simulated:core-ultra-5-125h"
WIDTH: Final = 32
"""Tokens of the machine's graph for decoding."""
_EAGLE: Final = "EAGLE-2, as the paper simulates it"
_EAGLE_ACCEPTED: Final = 5.5
"""Tokens a pass, the most that its paper reports (sd.npu §4.1)."""
_EAGLE_DEPTH: Final = 6
"""Passes of its draft model, a layer and the head, for each of the model: the depth of its tree."""


def ablation() -> list[Vanilla]:
    """Return the sides of the ablation, each with what the one before it has."""
    sides = [
        FromLogits("retrieval"),
        FromLogits("+ calibration", calibrates=True),
        FromLogits("+ reuse", calibrates=True, reuses=True),
    ]
    for side in sides:
        side.verifies_all, side.most_verified = True, WIDTH - 1
        side.app = side.name
    return [Vanilla(), *sides]


@dataclass
class Recorded:
    """The answers of one side to all prompts."""

    side: Vanilla
    answers: list[tuple[int, Answer]] = field(default_factory=list)
    """Each behind its prompt's number of tokens."""

    @property
    def tokens_a_pass(self) -> float:
        """The paper's acceptance ratio."""
        return sum(each.decoded for _, each in self.answers) / sum(each.passes for _, each in self.answers)


def record(
    runtime: AnsweringRuntime,
    sets: Sequence[PromptSet],
    max_tokens: int,
    progress: Callable[[str], None],
) -> list[Recorded]:
    """Have each side of the ablation answer the prompts of the sets whose answers repeat their contexts."""
    recorded = [Recorded(side) for side in ablation()]
    for each in (each for each in sets if each.context_heavy):
        for one in recorded:
            one.side.begin_app()
        for number, prompt in enumerate(each.prompts, 1):
            progress(f"as an NPU verifies, {each.name}, prompt {number} of {len(each.prompts)}")
            tokens = len(runtime.prompt_tokens(prompt))
            for one in recorded:
                one.answers.append((tokens, runtime.answer(one.side, prompt, max_tokens)))
    return [one for one in recorded if any(answer.decoded for _, answer in one.answers)]


@dataclass(frozen=True, slots=True)
class Simulated:
    """What all answers of a side take on the machine."""

    prefill_s: float
    decode_s: float
    prefill_j: float
    """Energy, by the power that the machine's profile has for each XPU."""
    decode_j: float
    loads_s: float = 0.0
    """Time to load all graphs for decoding, for each answer."""


def simulate_answers(recorded: Recorded, *, npu_decoding: bool) -> Simulated:
    """Answer the recorded prompts one by one; the GPU decodes, or the NPU."""
    from agentrt.bench.simulation.platform import simulate
    from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
    from agentrt.priority import Priority
    from agentrt.runtime.scheduler.policy import AGENT_XPU

    prefill_s = decode_s = prefill_j = decode_j = loads_s = 0.0
    for prompt_tokens, answer in recorded.answers:
        platform, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=npu_decoding)
        simulated = Simulation(platform, graph, AGENT_XPU, blocks=4096, max_batch_size=8)
        calibrates = isinstance(recorded.side, FromLogits) and recorded.side.calibrates
        simulated.submit(
            SimulatedRequest(prompt_tokens, answer.decoded + 1, Priority.REACTIVE, answer.steps, calibrates)
        )
        simulated.run()
        (output,) = simulated.outputs
        prefill_s += output.first_token - output.arrived
        decode_s += output.ended - output.first_token
        for kernel in simulated.trace.kernels:
            joules = (kernel.ended - kernel.started) * graph.cost_model.xpus[kernel.role].watts
            if kernel.stage == "prefill":
                prefill_j += joules
            else:
                decode_j += joules
        loads_s += sum(graph.switch_costs().load_s) if npu_decoding else 0.0
    return Simulated(prefill_s, decode_s, prefill_j, decode_j, loads_s)


def eagle(bare: Simulated, passes: int) -> Simulated:
    """Return EAGLE-2's simulated row from ``bare`` decoding of ``passes`` passes (sd.npu §4.1).

    A pass verifies its tree in the time of one token, and accepts as many tokens as its paper reports. Its
    draft model is one layer of the model, and the head.
    """
    from agentrt.bench.simulation.platform import simulate
    from agentrt.runtime.heg.kernel import Role

    _, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025)
    layers = graph.cost_model.xpus[Role.DECODE].layers
    assert layers is not None
    pass_s, head_s = bare.decode_s / passes, layers.head.at(1, 0.0)
    draft_s = (pass_s - head_s) / graph.layers + head_s
    times = (1 + _EAGLE_DEPTH * draft_s / pass_s) / _EAGLE_ACCEPTED
    return replace(bare, decode_s=times * bare.decode_s, decode_j=times * bare.decode_j)


def ablation_table(recorded: Sequence[Recorded]) -> Table:
    """Tables 3 and 4, and Figure 11: each row drafts from what the one before it does, and one thing more."""

    def row(name: str, one: Recorded, passed: float, gpu: Simulated, npu: Simulated) -> tuple[Cell, ...]:
        answers, tokens = len(one.answers), sum(each.decoded for _, each in one.answers)
        return (
            name,
            round(passed, 2),
            round(1e3 * npu.prefill_s / answers),
            round(1e3 * gpu.decode_s / tokens, 1),
            round(1e3 * (npu.decode_s + npu.loads_s) / tokens, 1),
            round(1e3 * npu.decode_s / tokens, 1),
            *(round((each.prefill_j + each.decode_j) / tokens, 2) for each in (gpu, npu)),
        )

    rows, bare = [], recorded[0]
    for one in recorded:
        gpu, npu = (simulate_answers(one, npu_decoding=each) for each in (False, True))
        rows.append(row(one.side.name, one, one.tokens_a_pass, gpu, npu))
        if one is bare:
            passes = sum(each.passes for _, each in one.answers)
            eagles = row(_EAGLE, one, _EAGLE_ACCEPTED, eagle(gpu, passes), eagle(npu, passes))
    return Table(
        title="drafts on a simulated NPU (sd.npu, Tables 3 and 4, Fig. 11)",
        columns=(
            *("drafts", "tokens a pass", "prefill ms", "ms a token: GPU decodes"),
            *("NPU, graphs loaded after prefill", "NPU, graphs loaded during prefill"),
            *("J a token: GPU decodes", "NPU decodes"),
        ),
        rows=(*rows, eagles),
    )
