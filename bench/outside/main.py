"""The outside bench: benches that other people wrote, on agentrt, llama.cpp and OpenVINO GenAI."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError

from ..common.bench_model import open_given_models
from ..common.estimates import Estimate
from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from ..engines.llama_cpp import describe_builds
from .agentperf import VERSION, AgentPerf, Recorded
from .agents import measure_agents
from .calls import load_groups, measure_calls
from .servers import open_servers


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    agents: Mapping[bool, Sequence[Recorded]]
    """Alone (False), and beside a background agent (True)."""
    tasks: Mapping[bool, int]
    """Of each of BFCL's categories, of the development set (False) and held back (True)."""


_SMALLEST: Final = (Recorded("task_skill_search"), Recorded("task_k8s_debugging"))
_SHORT: Final = (Recorded("django__django-15851", 2),)
SIZES: dict[bool, Size] = {
    True: Size({False: _SHORT, True: _SHORT}, {False: 1, True: 1}),
    False: Size({False: _SMALLEST, True: _SMALLEST[:1]}, {False: 2, True: 8}),
}
"""Sizes of the quick run, and of the full one."""
METHOD: Final = f"""\
Nothing in agentrt is tuned on these agents, nor on the tasks of BFCL that are held back. Servers on this \
machine have the same model: agentrt's, with its defaults; llama.cpp's, of the last build named below, with \
its own chat template and parser and two slots of one f16 cache; OpenVINO GenAI's continuous batching with \
its prefix cache and agentrt's activation groups, behind a thin server that streams the text and reads no \
calls. agentperf-local {VERSION} (Artificial Analysis) replays \
agents that were recorded elsewhere, with their messages and tools, each answer as long as the recorded one \
(exact), at its own sampling settings, and without the time of the tools: agentperf_wall_ratio_* is a peer's \
time for all turns by ours, above 1 where ours is less, its interval over turns; the servers take turns in \
another order for each agent. agentperf_turns_failed counts ours. Beside a background agent: one digest \
after the other of about 1,500 tokens, answered in 96, tagged with the service tier flex, which agentrt \
alone reads. CPU seconds are those of a server's process, with an answer of 512 tokens that agentperf-local \
asks for before the first turn, and the background. BFCL: greedy answers whose calls are exactly the \
accepted ones in any order (multiple, parallel), without a call (irrelevance), or, after the right calls \
for a conversation's turns before it, whose first call is the first right one, or which have none where \
none is right (multi_turn; BFCL itself runs all calls on simulators and compares what they changed). \
llama_cpp_reread has agentrt's parser read the texts in which llama.cpp found no call. Held back are the \
tasks whose name (for conversations that of their group) has an odd first byte of its SHA-256; figures are \
of these, and differences are on the same tasks."""
_NO_AGENTS: Final = "Recorded agents were left out: they need --agentperf PYTHON once, which installs them."
_NO_TASKS: Final = "BFCL was left out: it needs --workloads."


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    model: str | None = None,
    agentperf: str | None = None,
) -> BenchReport:
    """Measure ``model``, a GGUF file.

    The folder ``workloads`` has BFCL's tasks. ``agentperf`` is an interpreter (a path or a name) with which
    agentperf-local is installed in the user's cache folder first, if it is not there.

    Raises:
        ConfigurationError: there is no model, or nothing to measure, or agentperf-local cannot be installed.
        ModelNotFoundError, ModelFormatError: the model is missing or damaged. Nothing was measured.
        WorkloadError: a workload is missing or damaged. Nothing was measured.
        BenchProcessError, BenchPeerError: a server died, or does not do the work.
    """
    machine, size, agents = describe_machine(), SIZES[quick], AgentPerf()
    if model is None:
        raise ConfigurationError("bench outside needs a model. Name a GGUF file: --model FILE")
    groups = None if workloads is None else load_groups(workloads, size.tasks)
    if agentperf is not None and not agents.is_installed:
        agents.install(agentperf, progress)
    left_out = [] if agents.is_installed else [_NO_AGENTS]
    left_out += [] if groups else [_NO_TASKS]
    if len(left_out) == 2:
        raise ConfigurationError(f"bench outside has nothing to measure. {' '.join(left_out)}")
    for note in left_out:
        progress(note)
    given = open_given_models([model], progress)[model]
    if given.gguf is None:
        raise ConfigurationError(f"llama.cpp does not read {model}. Name a GGUF file: --model FILE")
    figures: dict[str, Estimate] = {}
    tables: list[Table] = []
    progress(f"{given.title}: loading all servers")
    with open_servers(given) as servers:
        if agents.is_installed:
            found, table = measure_agents(agents, servers, given, size.agents, progress)
            figures, tables = {**figures, **found}, [*tables, table]
        if groups:
            found, table = measure_calls(servers, groups, progress)
            figures, tables = {**figures, **found}, [*tables, table]
    return BenchReport(
        bench="outside",
        machine=machine,
        figures=figures,
        tables=tuple(tables),
        method=" ".join([METHOD, describe_builds(), *left_out]),
    )
