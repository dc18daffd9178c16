"""The scheduler bench: reactive latency beside background load, and proactive throughput."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError
from agentrt.extras import require_extra

from ..common.bench_model import open_given_models
from ..common.machine import describe_machine
from ..common.report import BenchReport, Seeds, Table
from ..engines.endpoint import PeerAddress
from .agent import AGENT_METHOD, has_agent_turns, measure_agent_turns
from .engines import LLAMA_CPP_METHOD, PEERS_METHOD, open_engines
from .figures import Sweep, figure6, figure7, figures_of, points_table, simulated_method
from .live import LOAD, LiveSize, measure_live
from .load import Lengths, recorded_lengths
from .reactive import REACTIVE_METHOD, measure_reactive
from .simulated import FEW_WAIT_LENGTHS, WAIT_LENGTHS, decision_us, measure_waits

_DECISIONS: Final = 300


@dataclass(frozen=True, slots=True)
class SimulatedSize:
    """Amount of simulated work."""

    sweep: Sweep
    wait_lengths: tuple[int, ...]
    wait_arrivals: int
    """Questions beside background prompts of each length."""


@dataclass(frozen=True, slots=True)
class GivenSize:
    """Amount of work of one run on a model that the user names."""

    live: LiveSize
    reactive: int
    """Repetitions of a question beside a prefill and beside answers."""
    agents: int
    """Repetitions of an agent's conversation."""


_QUICK: Final = SimulatedSize(Sweep((0.05, 0.2, 0.8), (10.0,), range(3), 10, 30), FEW_WAIT_LENGTHS, 16)
_FULL: Final = SimulatedSize(
    Sweep((0.05, 0.1, 0.2, 0.4, 0.8), (10.0, 20.0, 40.0), range(10), 20, 60), WAIT_LENGTHS, 60
)
NANO: dict[bool, LiveSize] = {True: LiveSize(8, 1, 6), False: LiveSize(12, 2, 32, (1.3,))}
SIMULATED: dict[bool, SimulatedSize] = {True: _QUICK, False: _FULL}
GIVEN: dict[bool, GivenSize] = {
    True: GivenSize(LiveSize(2, 1, 4, longest=300), 2, 1),
    False: GivenSize(LiveSize(2, 2, 6, longest=800), 5, 3),
}
"""Sizes of the quick run, and of the full one."""


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    peers: Sequence[PeerAddress] = (),
    seeds: Seeds | None = None,
    model: str | None = None,
) -> BenchReport:
    """Measure nano on this machine, and simulated machines; or ``model``, which ``peers`` serve as well.

    ``workloads`` is a folder of public sets for lengths and arrivals. ``seeds`` are those of each simulated
    load, which is run once for each, with other requests. What is simulated does not depend on a model.

    Raises:
        BenchPeerError: a peer does not serve the model. Nothing was measured.
        ConfigurationError: two peers have one name, or there are peers and no ``model``.
    """
    if len({peer.name for peer in peers}) < len(peers):
        raise ConfigurationError("--peer has the same name twice. Give each of llama_cpp and vllm once.")
    lengths = recorded_lengths(workloads)
    if model is not None:
        return _run_given(model, peers, lengths, workloads, GIVEN[quick], progress)
    if peers:
        raise ConfigurationError("--peer serves a model. Name the same one here: --model FILE.")
    size = SIMULATED[quick]
    if seeds is not None:
        size = replace(size, sweep=replace(size.sweep, seeds=seeds.take(len(size.sweep.seeds))))
    progress("nano: loading both sides")
    with open_engines(open_given_models(["nano"], progress)["nano"]) as engines:
        figures, tables = measure_live("nano", lengths, workloads, NANO[quick], engines, progress)
    simulated, drawn = _simulate(lengths, size, progress)
    figures |= simulated
    for waiting in (1_000, 10_000):
        progress(f"a decision while {waiting} wait")
        figures[f"decision_us_p50_at_{waiting}"] = decision_us(waiting, _DECISIONS)
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=(*tables, *drawn),
        method=f"{_live_method('nano', NANO[quick], lengths, '')}{simulated_method(size.sweep)}"
        "Waits: until a question's first kernel, at arrivals spread over all that four background prompts of "
        "one length do, prefill and decode; the longest kernel is the background's. Decisions: the median "
        "while so many requests wait, on that simulated machine.",
    )


def _run_given(
    name: str,
    peers: Sequence[PeerAddress],
    lengths: Lengths,
    workloads: Path | None,
    size: GivenSize,
    progress: Callable[[str], None],
) -> BenchReport:
    """Measure the model that the user names so."""
    model = open_given_models([name], progress)[name]
    if model.gguf is not None:
        require_extra("bench")  # llama.cpp
    progress(f"{model.title}: loading all sides")
    with open_engines(model, peers) as engines:
        figures, tables = measure_live(model.title, lengths, workloads, size.live, engines, progress)
        questions, table = measure_reactive(engines, size.reactive, progress)
    figures |= questions
    tables.append(table)
    agent = model.gguf is not None and has_agent_turns(model)
    if agent:
        ratio, found = measure_agent_turns(model, size.agents, progress)
        figures |= ratio
        tables += found
    beside = (PEERS_METHOD if peers else "") + (LLAMA_CPP_METHOD if model.gguf is not None else "")
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=tuple(tables),
        method=f"{_live_method(model.title, size.live, lengths, beside)}The user and the "
        "background ask about passages of English prose in the model's chat template. The simulated figures "
        f"(sim_*, decision_us_*) are left out: they do not depend on the model. {REACTIVE_METHOD}"
        f"{AGENT_METHOD if agent else ''}",
    )


def _simulate(
    lengths: Lengths, size: SimulatedSize, progress: Callable[[str], None]
) -> tuple[dict[str, float], list[Table]]:
    alone = figure6(lengths, size.sweep, progress)
    mixed = figure7(lengths, size.sweep, progress)
    progress("simulated Core Ultra: waits beside background prompts of every length")
    waits = list(measure_waits(size.wait_lengths, size.wait_arrivals))
    figures = figures_of(lengths, alone, mixed)
    figures["sim_proactive_kernel_max_ms"] = 1e3 * max(each.longest_kernel_s for each in waits)
    figures["sim_reactive_wait_max_ms"] = 1e3 * max(max(each.seconds) for each in waits)
    return figures, [
        points_table("Fig. 6 of Agent.xpu, simulated: proactive work only", alone),
        points_table("Fig. 7 of Agent.xpu, simulated: proactive work and a user", mixed),
    ]


def _live_method(model: str, size: LiveSize, lengths: Lengths, beside: str) -> str:
    """Return how the model was measured live; ``beside`` is about engines beside the two."""
    return (
        f"Live: {model} on this machine, agentrt and openvino_genai's "
        "ContinuousBatchingPipeline (256 tokens a step, split prompts, at most 16 sequences, no "
        "prefix cache) in a process each, both with OpenVINO's own precisions and threads, in turns, "
        f"the other one idle. A schedule of proactive requests ({LOAD:.0%} of the machine) and of a "
        "user who asks one thing after another, each when the answer before is there and thought over "
        f"({size.users} questions, {size.repetitions} rounds), {lengths.source}; arrivals of the "
        "background in the shape of the Azure conversation trace "
        "where the workloads folder has it, else Poisson. Times count from when a request was meant "
        f"to arrive. {beside}"
        "'Over unloaded' compares each question with the same one on the idle engine. "
        "Preemption: what was left of the background kernel that ran when a question came. "
        f"Throughput: {size.backlog} proactive requests at once, to the last answer. "
    )
