"""Drafts on an NPU that decodes, in virtual time: sd.npu's ablation (Tables 3 and 4) and energy (Fig. 11).

The passes are those of a real model, which verifies all that is drafted, up to the tokens that the NPU's
graph for decoding computes at once. What they take is what the simulated machine takes for its own model.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Final

from ..common.estimates import Estimate, bootstrap
from ..common.report import Table
from .answering import NPU_TOKENS, Answer, AnsweringRuntime
from .prompt_sets import PromptSet
from .sides import FromLogits, Vanilla

MACHINE: Final = "simulated:core-ultra-5-125h"
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
        FromLogits("+ branches", calibrates=True, reuses=True),
    ]
    sides[-1].branches = True
    for side in sides:
        side.verifies_all, side.most_verified = True, NPU_TOKENS - 1
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
            answers = [runtime.answer(one.side, prompt, max_tokens) for one in recorded]
            if all(answer.decoded for answer in answers):  # else there is nothing to divide by
                for one, answer in zip(recorded, answers, strict=True):
                    one.answers.append((tokens, answer))
    return recorded


@dataclass(frozen=True, slots=True)
class Simulated:
    """What answers take on the machine."""

    tokens: int
    """Behind the first one of each."""
    prefill_s: float
    decode_s: float
    prefill_j: float
    """Energy, by the power that the machine's profile has for each XPU."""
    decode_j: float
    loads_s: float = 0.0
    """Time to load all graphs for decoding, for each answer."""

    def __add__(self, other: Simulated) -> Simulated:
        return Simulated(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def token_ms(self) -> float:
        return 1e3 * self.decode_s / self.tokens

    @property
    def token_j(self) -> float:
        """With prefill."""
        return (self.prefill_j + self.decode_j) / self.tokens


def simulate_answer(
    prompt_tokens: int, answer: Answer, *, npu_decoding: bool, calibrates: bool = False
) -> Simulated:
    """Answer a prompt as it was recorded, alone on the machine, whose GPU decodes, or its NPU."""
    from agentrt.bench.simulation.platform import simulate
    from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
    from agentrt.priority import Priority
    from agentrt.runtime.scheduler.policy import AGENT_XPU

    platform, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=npu_decoding)
    simulated = Simulation(platform, graph, AGENT_XPU, blocks=4096, max_batch_size=8)
    # A branch may be longer than the draft. Up to this width a pass takes the same time.
    passes = tuple((max(drafted, added - 1), added) for drafted, added in answer.steps)
    simulated.submit(
        SimulatedRequest(prompt_tokens, answer.decoded + 1, Priority.REACTIVE, passes, calibrates)
    )
    simulated.run()
    (output,) = simulated.outputs
    joules = dict.fromkeys(("prefill", "decode"), 0.0)
    for kernel in simulated.trace.kernels:
        watts = graph.cost_model.xpus[kernel.role].watts
        joules[kernel.stage] += (kernel.ended - kernel.started) * watts
    return Simulated(
        answer.decoded,
        output.first_token - output.arrived,
        output.ended - output.first_token,
        joules["prefill"],
        joules["decode"],
        sum(graph.switch_costs().load_s) if npu_decoding else 0.0,
    )


def eagle(bare: Simulated) -> Simulated:
    """Return EAGLE-2's simulated row from ``bare`` decoding of one token a pass (sd.npu §4.1).

    A pass verifies its tree in the time of one token, and accepts as many tokens as its paper reports. Its
    draft model is one layer of the model, and the head.
    """
    from agentrt.bench.simulation.platform import simulate
    from agentrt.runtime.heg.kernel import Role

    _, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025)
    layers = graph.cost_model.xpus[Role.DECODE].layers
    assert layers is not None
    pass_s, head_s = bare.decode_s / bare.tokens, layers.head.at(1, 0.0)
    draft_s = (pass_s - head_s) / graph.layers + head_s
    times = (1 + _EAGLE_DEPTH * draft_s / pass_s) / _EAGLE_ACCEPTED
    return replace(bare, decode_s=times * bare.decode_s, decode_j=times * bare.decode_j)


class Ablation:
    """The recorded sides on the machine: Tables 3 and 4, and Figure 11."""

    def __init__(self, recorded: Sequence[Recorded]) -> None:
        """Each side has what the one before it drafts from, and one thing more."""
        self._recorded = recorded
        self._on_gpu = [self._simulate(each, npu_decoding=False) for each in recorded]
        self._on_npu = [self._simulate(each, npu_decoding=True) for each in recorded]

    @staticmethod
    def _simulate(recorded: Recorded, *, npu_decoding: bool) -> list[Simulated]:
        side = recorded.side
        return [
            simulate_answer(tokens, answer, npu_decoding=npu_decoding, calibrates=side.calibrates)
            for tokens, answer in recorded.answers
        ]

    def figures(self) -> dict[str, Estimate]:
        """Return what all drafts gain on the NPU, over none and over those from text; by prompt."""
        none, text, *_, all_ = self._on_npu
        return {
            "npu_speedup_vs_vanilla": bootstrap(list(zip(none, all_, strict=True)), _speedup),
            "npu_speedup_vs_retrieval": bootstrap(list(zip(text, all_, strict=True)), _speedup),
            "npu_energy_ratio": bootstrap(list(zip(none, all_, strict=True)), _energy_ratio),
        }

    def table(self) -> Table:
        """Return a row for each side, and EAGLE-2's."""
        totals = [
            (each.side.name, each.tokens_a_pass, _total(on_gpu), _total(on_npu))
            for each, on_gpu, on_npu in zip(self._recorded, self._on_gpu, self._on_npu, strict=True)
        ]
        _, _, gpu, npu = totals[0]
        answers = len(self._on_npu[0])
        totals.append((_EAGLE, _EAGLE_ACCEPTED, eagle(gpu), eagle(npu)))
        return Table(
            title="drafts on a simulated NPU (sd.npu, Tables 3 and 4, Fig. 11)",
            columns=(
                *("drafts", "tokens a pass", "prefill ms", "ms a token: GPU decodes"),
                *("NPU, graphs loaded after prefill", "NPU, graphs loaded during prefill"),
                *("J a token: GPU decodes", "NPU decodes"),
            ),
            rows=tuple(
                (
                    *(name, round(passed, 2), round(1e3 * npu.prefill_s / answers), round(gpu.token_ms, 1)),
                    round(npu.token_ms + 1e3 * npu.loads_s / npu.tokens, 1),
                    *(round(npu.token_ms, 1), round(gpu.token_j, 2), round(npu.token_j, 2)),
                )
                for name, passed, gpu, npu in totals
            ),
        )


def _total(simulated: Sequence[Simulated]) -> Simulated:
    return functools.reduce(operator.add, simulated)


def _totals(pairs: Sequence[tuple[Simulated, Simulated]]) -> tuple[Simulated, Simulated]:
    return _total([first for first, _ in pairs]), _total([second for _, second in pairs])


def _speedup(pairs: Sequence[tuple[Simulated, Simulated]]) -> float:
    before, after = _totals(pairs)
    return before.token_ms / after.token_ms


def _energy_ratio(pairs: Sequence[tuple[Simulated, Simulated]]) -> float:
    before, after = _totals(pairs)
    return before.token_j / after.token_j
