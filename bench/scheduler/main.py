"""The scheduler bench: Agent.xpu's figures on simulated machines, or reactive latency of a given model."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError
from agentrt.extras import require_extra

from ..common.bench_model import open_given_models
from ..common.estimates import Estimate, exact, median
from ..common.machine import describe_machine
from ..common.report import BenchReport, Seeds, Table
from ..engines.llama_cpp import describe_builds, llama_cpp_builds
from .agent import has_agent_turns, measure_agent_turns
from .engines import open_engines
from .figures import (
    Sweep,
    figure4_table,
    figure6,
    figure7,
    figures_of,
    points_table,
    rates_table,
    ratios_table,
)
from .load import Lengths, recorded_lengths
from .reactive import measure_reactive
from .simulated import FEW_WAIT_LENGTHS, WAIT_LENGTHS, decision_us, measure_waits

SIMULATED_METHOD: Final = """\
Simulated: a Core Ultra 5 125H from published figures and the assumptions that its file names; nothing was \
measured on one. Each seed gives all systems the same requests, and intervals are over the seeds. Half of \
the records of the public sets are held back, by a checksum of their group; nothing is tuned on those. \
'Order of arrival' has agentrt's chunks, placement and pressure tiers and lacks only priorities; batching \
on the CPU stands for llama.cpp. Fig. 6: the highest rate of proactive requests at which the mean latency \
(time to the first token by prompt length, of the second half of the requests) is at most twice that of \
the same requests one by one on our machine; found for each seed by bisection in steps of 5 %. \
sim_proactive_rate_ratio_* is the geometric mean over kinds of work of our rate by the other's. Overlap is \
the share of the NPU's busy time in which the GPU decodes, at our highest rate. Energy is the time of \
kernels times the assumed power of their XPU, above that of an idle machine. Fig. 7: \
sim_reactive_latency_ratio_* is the geometric mean over think times of the other's median latency by ours, \
of the questions that both were asked (a user who waits longer asks less), at the lowest rate (light) and \
the highest (saturated). Waits: until a question's first kernel, at arrivals spread over all that four \
background prompts of one length do; they are computed alike in each run, and so is Fig. 4. decision_us_*: \
CPU time of a scheduling decision on this machine while 10 or 10,000 requests that came at once wait, over \
a virtual minute, in which they are promoted for their age; median of the runs, without collections of \
garbage."""
GIVEN_METHOD: Final = """\
All engines are servers on this machine, and are asked over HTTP, which is in their times: `agentrt serve`, \
OpenVINO GenAI's continuous batching (256 tokens a step, split prompts, at most 16 sequences, prefix cache) \
with activations quantised in the groups that agentrt chooses and in OpenVINO's default ones, for a GGUF \
file llama.cpp's server (16 slots in one f16 cache), and the vLLM of --peer. They take turns, and a figure \
is the median of the ratios within a repetition, of which llama.cpp takes part in the first ones only, to \
OpenVINO GenAI with agentrt's groups and to the faster build of llama.cpp. agentrt has its defaults, of \
which no faster ones are known. A question of 32 tokens before the chat template is sent alone, into a \
background prefill of 2,048 tokens (less where the context is shorter), and beside eight background \
answers that have all begun: reactive_ttft_* compares the time to the first token, reactive_ms_per_token_* \
that of a token of the question's answer. An agent's conversation is three model requests with ten tools, \
beside a digest of three texts at all times or alone; calls and results were written beforehand, so that \
all servers compute the same messages; llama.cpp, several times slower, has none. agent_time_ratio_* is \
our time of all turns by that of OpenVINO GenAI. The first token of a turn is what a client sees first: \
agentrt hands over a call once its name is written and its grammar allows nothing else; OpenVINO GenAI's \
server here sends the text as it comes and reads no calls. agentrt is told the background by service_tier \
flex, vLLM by priorities; the others know none."""


@dataclass(frozen=True, slots=True)
class SimulatedSize:
    """Amount of simulated work."""

    sweep: Sweep
    wait_lengths: tuple[int, ...]
    wait_arrivals: int
    """Questions beside background prompts of each length."""
    decided: int
    """Runs in which decisions are timed."""
    decided_s: float
    """Seconds of such a run, on the virtual clock."""


@dataclass(frozen=True, slots=True)
class GivenSize:
    """Amount of work of one run on a model that the user names."""

    reactive: int
    """Repetitions of a question beside a prefill and beside answers."""
    slow: int
    """Those of llama.cpp."""
    agents: int
    """Repetitions of an agent's conversation."""


_QUICK: Final = SimulatedSize(Sweep(range(2), 6, (0.1, 0.8), (10.0,), 4, 2), FEW_WAIT_LENGTHS, 16, 2, 2)
_FULL: Final = SimulatedSize(
    Sweep(range(5), 30, (0.1, 0.3, 0.8), (10.0, 30.0), 20, 6), WAIT_LENGTHS, 60, 5, 60
)
_DECISIONS: Final = {10: {"p50": 0.5}, 10_000: {"p50": 0.5, "p999": 0.999, "max": 1.0}}
"""Which quantiles of the times of decisions are figures, by how many requests wait."""
SIMULATED: dict[bool, SimulatedSize] = {True: _QUICK, False: _FULL}
GIVEN: dict[bool, GivenSize] = {True: GivenSize(2, 1, 1), False: GivenSize(5, 3, 3)}
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
        figures, table = measure_reactive(engines, model.context_length, size.reactive, size.slow, progress)
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
    lengths: Mapping[str, Lengths], size: SimulatedSize, progress: Callable[[str], None]
) -> tuple[dict[str, Estimate], list[Table]]:
    # As many processes as cores: time is virtual. A fork of a process that has threads can hang.
    cores, spawn = describe_machine().usable_cores, multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, spawn) as executor:
        found = figure6(lengths, size.sweep, executor, progress)
        points = figure7(lengths, size.sweep, executor, progress)
        progress("simulated Core Ultra: waits beside background prompts of every length")
        waits = list(executor.map(measure_waits, size.wait_lengths, itertools.repeat(size.wait_arrivals)))
    figures = figures_of(found, points, size.sweep)
    figures["sim_proactive_kernel_max_ms"] = exact(1e3 * max(each.longest_kernel_s for each in waits))
    figures["sim_reactive_wait_max_ms"] = exact(1e3 * max(max(each.seconds) for each in waits))
    progress("decisions while many wait")
    for waiting, statistics in _DECISIONS.items():
        runs = [sorted(decision_us(waiting, size.decided_s)) for _ in range(size.decided)]
        for name, share in statistics.items():
            values = [took[min(len(took) - 1, int(share * len(took)))] for took in runs]
            figures[f"decision_us_{name}_at_{waiting}"] = median(values)
    return figures, [
        figure4_table("Fig. 4 of Agent.xpu, simulated: a question during a background prompt"),
        rates_table("Fig. 6 of Agent.xpu, simulated: the highest rates of proactive work only", found),
        points_table("Fig. 7 of Agent.xpu, simulated: proactive work and a user", points),
        ratios_table("Latencies of Fig. 7 by ours, simulated", points),
    ]
