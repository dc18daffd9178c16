"""The scheduler bench: Agent.xpu's figures on simulated machines, or reactive latency of a given model."""

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
from ..engines.llama_cpp import describe_builds, llama_cpp_builds
from .agent import has_agent_turns, measure_agent_turns
from .engines import open_engines
from .figures import Sweep, figure6, figure7, figures_of, points_table
from .load import Lengths, recorded_lengths
from .reactive import measure_reactive
from .simulated import FEW_WAIT_LENGTHS, WAIT_LENGTHS, measure_waits

SIMULATED_METHOD: Final = """\
Simulated: a Core Ultra 5 125H from published figures and the assumptions that its file names; nothing was \
measured on one. Each seed gives all systems the same requests. 'Order of arrival' has agentrt's chunks, \
placement and pressure tiers and lacks only priorities; batching on the CPU stands for llama.cpp. \
sim_*_ratio are medians over Fig. 7's points of their latency by ours ('mean': of means; 'max': the \
largest). Overlap is the share of the NPU's busy time in which the GPU decodes, at the knee: the highest \
rate at which the reactive median is at most 1.25 times that at the lowest and the busiest XPU is busy at \
most 95 % of the time. A rate is sustained up to twice the baseline's latency at its lowest rate. Waits: \
until a question's first kernel, at arrivals spread over all that four background prompts of one length \
do."""
GIVEN_METHOD: Final = """\
All engines are servers on this machine, and are asked over HTTP, which is in their times: `agentrt serve`, \
OpenVINO GenAI's continuous batching (256 tokens a step, split prompts, at most 16 sequences, prefix cache) \
with activations quantised in the groups that agentrt chooses and in OpenVINO's default ones, for a GGUF \
file llama.cpp's server (16 slots in one f16 cache), and the vLLM of --peer. They take turns, and a figure \
is the median of the ratios within a repetition, to OpenVINO GenAI with agentrt's groups and to the faster \
build of llama.cpp. agentrt has its defaults. A question of 32 tokens before the chat template is sent \
alone, into a background prefill of 2,048 tokens (less where the context is shorter), and beside eight \
background answers that have all begun: reactive_ttft_* compares the time to the first token, \
reactive_ms_per_token_* that of a token of the question's answer. An agent's conversation is three model \
requests with ten tools, beside a digest of three texts at all times or alone; calls and results were \
written beforehand, so that all servers compute the same messages; llama.cpp, several times slower, has \
none. agent_time_ratio_* is our time of all turns by that of OpenVINO GenAI. The first token of a turn is \
what a client sees first: agentrt hands over a call once its name is written and its grammar allows nothing \
else; OpenVINO GenAI's server here sends the text as it comes and reads no calls. agentrt is told the \
background by service_tier flex, vLLM by priorities; the others know none."""


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

    reactive: int
    """Repetitions of a question beside a prefill and beside answers."""
    agents: int
    """Repetitions of an agent's conversation."""


_QUICK: Final = SimulatedSize(Sweep((0.05, 0.2, 0.8), (10.0,), range(3), 10, 30), FEW_WAIT_LENGTHS, 16)
_FULL: Final = SimulatedSize(
    Sweep((0.05, 0.1, 0.2, 0.4, 0.8), (10.0, 20.0, 40.0), range(10), 20, 60), WAIT_LENGTHS, 60
)
SIMULATED: dict[bool, SimulatedSize] = {True: _QUICK, False: _FULL}
GIVEN: dict[bool, GivenSize] = {True: GivenSize(2, 1), False: GivenSize(5, 5)}
"""Sizes of the quick run, and of the full one."""


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    peers: Sequence[str] = (),
    seeds: Seeds | None = None,
    model: str | None = None,
) -> BenchReport:
    """Measure simulated machines, or ``model`` on this machine, which ``peers`` serve as well.

    ``workloads`` is a folder of public sets for the simulated requests' lengths. ``seeds`` are those of each
    simulated load, which is run once for each, with other requests.

    Raises:
        BenchPeerError: a peer does not serve the model. Nothing was measured.
        ConfigurationError: there are peers and no ``model``.
    """
    if model is not None:
        return _run_given(model, peers, GIVEN[quick], progress)
    if peers:
        raise ConfigurationError("--peer serves a model. Name the same one here: --model FILE.")
    size = SIMULATED[quick]
    if seeds is not None:
        size = replace(size, sweep=replace(size.sweep, seeds=seeds.take(len(size.sweep.seeds))))
    figures, tables = _simulate(recorded_lengths(workloads), size, progress)
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=tuple(tables),
        method=SIMULATED_METHOD,
    )


def _run_given(
    name: str, peers: Sequence[str], size: GivenSize, progress: Callable[[str], None]
) -> BenchReport:
    """Measure the model that the user names so."""
    require_extra("bench")  # the servers, and llama.cpp
    model = open_given_models([name], progress)[name]
    progress(f"{model.title}: loading all sides")
    with open_engines(model, peers) as engines:
        figures, table = measure_reactive(engines, model.context_length, size.reactive, progress)
        tables = [table]
        if model.gguf is not None and has_agent_turns(model):
            agents = {name: each for name, each in engines.items() if name not in llama_cpp_builds()}
            ratios, table = measure_agent_turns(agents, size.agents, progress)
            figures |= ratios
            tables.append(table)
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=tuple(tables),
        method=GIVEN_METHOD if model.gguf is None else f"{GIVEN_METHOD} {describe_builds()}",
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
