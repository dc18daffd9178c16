"""The scheduler bench: reactive latency beside background load, and proactive throughput."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError

from ..common.machine import describe_machine
from ..common.random_gguf import HALF_BILLION, random_model_directory
from ..common.report import BenchReport, Table
from .live import LOAD, Live, LiveSize
from .load import Lengths, recorded_lengths
from .peer import Peer, PeerAddress
from .simulated import (
    SYSTEMS,
    Point,
    decision_us,
    figure6,
    figure7,
    latency_ratios,
    sustained_ratio,
)

_LARGER: Final = "0.5B"


@dataclass(frozen=True, slots=True)
class _Size:
    """Amount of work of one run."""

    live: LiveSize
    rates: tuple[float, ...]
    intervals: tuple[float, ...]
    simulated: int
    models: tuple[str, ...]


_QUICK = _Size(LiveSize(8, 1, 6), (0.05, 0.2, 0.8), (20.0,), 12, ("nano",))
_RATES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_FULL = _Size(LiveSize(12, 2, 32, (1.3,)), _RATES, (10.0, 20.0, 40.0), 40, ("nano", _LARGER))


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    peers: Sequence[PeerAddress] = (),
) -> BenchReport:
    """Run the bench. ``workloads`` is a folder of public sets for lengths and arrivals.

    ``peers`` serve the larger model; with peers it is measured even when ``quick``. Raises
    :class:`~agentrt.errors.BenchPeerError` before any work when one of them does not serve it.
    """
    size = _QUICK if quick else _FULL
    if len({peer.name for peer in peers}) < len(peers):
        raise ConfigurationError("--peer has the same name twice. Give each of llama_cpp and vllm once.")
    if peers:
        size = replace(size, models=(*(model for model in size.models if model != _LARGER), _LARGER))
        progress("asking the peers for a few tokens")
    serving = [Peer(address) for address in peers]
    lengths = recorded_lengths(workloads)
    figures: dict[str, float] = {}
    tables: list[Table] = []
    for model in size.models:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            path = _model_path(model, folder, progress)
            beside = serving if model == _LARGER else ()
            live = Live(model, path, lengths, workloads, size.live, beside, progress)
            own, found = live.measure()
        # The figures are those of the larger model measured, which comes last; the table has all.
        figures |= own
        tables += found
    progress("greedy tokens under every policy")
    figures["tokens_identical"] = float(_tokens_identical())
    simulated, drawn = _simulate(lengths, size, progress)
    figures |= simulated
    for waiting in (1_000, 10_000):
        progress(f"a decision while {waiting} wait")
        figures[f"decision_us_p50_at_{waiting}"] = decision_us(waiting, 300)
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=(*tables, *drawn),
        method=_method(size, lengths, serving),
    )


def _model_path(model: str, folder: Path, progress: Callable[[str], None]) -> str:
    from agentrt.runtime.model.directory import open_model_directory

    if model == "nano":
        return str(open_model_directory(model).path)
    return str(random_model_directory(folder, HALF_BILLION, progress))


def _tokens_identical() -> bool:
    """Whether nano's f32 tokens are equal under every policy, in one batch, and request by request."""
    import asyncio

    from agentrt.priority import Priority
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.runtime.scheduler.policy import POLICIES

    prompts = [f"{'note ' * (9 * number)}What is the weather in Oslo?" for number in range(10)]

    async def answers(runtime: LocalRuntime) -> list[tuple[int, ...]]:
        made = await asyncio.gather(
            *(
                runtime.agenerate(
                    [{"role": "user", "content": prompt}],
                    max_tokens=24,
                    priority=Priority.PROACTIVE if number % 3 else Priority.REACTIVE,
                )
                for number, prompt in enumerate(prompts)
            )
        )
        return [generation.token_ids for generation in made]

    said: list[list[tuple[int, ...]]] = []
    for policy in POLICIES:
        config = RuntimeConfig.model_validate(
            {
                "inference_precision": "f32",
                "kv_cache_precision": "f32",
                "memory_bytes": 64 * 2**20,
                "policy": policy,
            }
        )
        with LocalRuntime.open("nano", config) as runtime:
            if not said:
                said.append(
                    [
                        runtime.generate([{"role": "user", "content": prompt}], max_tokens=24).token_ids
                        for prompt in prompts
                    ]
                )
            said.append(asyncio.run(answers(runtime)))
    return all(each == said[0] for each in said)


def _simulate(
    lengths: Lengths, size: _Size, progress: Callable[[str], None]
) -> tuple[dict[str, float], list[Table]]:
    ours, baseline, same_machine = SYSTEMS
    progress("simulated Core Ultra: proactive work only")
    alone = figure6(lengths, size.rates, size.simulated)
    progress("simulated Core Ultra: with a user")
    mixed = figure7(lengths, size.rates, size.intervals, size.simulated)
    figures = {}
    for other, suffix in ((baseline, ""), (same_machine, "_same_machine")):
        latency = list(latency_ratios(mixed, ours, other))
        rates = [ratio for kind in lengths.proactive if (ratio := sustained_ratio(alone, ours, other, kind))]
        if latency:
            figures[f"sim_reactive_latency_ratio{suffix}"] = statistics.geometric_mean(latency)
        if rates:
            figures[f"sim_proactive_rate_ratio{suffix}"] = statistics.geometric_mean(rates)
    return figures, [
        _points_table("Fig. 6 of Agent.xpu, simulated: proactive work only", alone, "workload"),
        _points_table("Fig. 7 of Agent.xpu, simulated: proactive work and a user", mixed, "think time"),
    ]


def _points_table(title: str, points: Sequence[Point], first: str) -> Table:
    return Table(
        title=title,
        columns=(first, "system", "proactive requests/s", "reactive ms a token", "proactive ms a token"),
        rows=tuple(
            (
                point.workload if point.interval_s is None else f"every {point.interval_s:g} s",
                point.system,
                point.rate,
                point.reactive_ms,
                point.proactive_ms,
            )
            for point in points
        ),
    )


_PEERS: Final = (
    "Servers that the user started beside it, with the same weights and as the table says, take their turn "
    "under the same schedules of the larger model, over HTTP, which is in their times; vLLM is told "
    "priorities, llama.cpp knows none. "
)


def _method(size: _Size, lengths: Lengths, peers: Sequence[Peer]) -> str:
    return (
        f"Live: {' and '.join(size.models)} on this machine, agentrt and openvino_genai's "
        "ContinuousBatchingPipeline (256 tokens a step, split prompts, at most 16 sequences, no "
        "prefix cache) in a process each, both with OpenVINO's own precisions and threads, in turns, "
        f"the other one idle. A schedule of proactive requests ({LOAD:.0%} of the machine) and of a "
        "user who asks one thing after another, each when the answer before is there and thought over "
        f"({size.live.users} questions, {size.live.repetitions} rounds), {lengths.source}; arrivals of the "
        "background in the shape of the Azure conversation trace "
        "where the workloads folder has it, else Poisson. Times count from when a request was meant "
        f"to arrive. {_PEERS if peers else ''}"
        "'Over unloaded' compares each question with the same one on the idle engine. "
        "Added wait: until the first kernel, beyond that on the idle engine. Preemption: what was "
        "left of the background kernel that ran when a question came. Kept fraction: the time that a "
        "backlog and a user's questions need one after the other, over the time that the backlog "
        f"needs beside them. Throughput: {size.live.backlog} proactive requests at once, to the last answer. "
        "The 0.5 B model has random int8 weights (GGUF, Q8_0). Simulated: a Core "
        "Ultra 5 125H from published peak figures; nothing was measured on one. Its baseline, "
        "continuous batching in order of arrival on its CPU at the efficiency that llama.cpp showed "
        "elsewhere, stands for llama.cpp; 'same machine' is the same policy on its NPU and GPU. "
        "Latency ratios are geometric means over Fig. 7's points. A rate is sustained while the "
        "normalized latency is at most twice the baseline's at the lowest rate. Decisions: the median "
        "while so many requests wait, on that simulated machine."
    )
