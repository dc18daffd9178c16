"""The scheduler bench: reactive latency beside background load, and proactive throughput."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError
from agentrt.extras import require_extra

from ..common.bench_model import BenchModel, open_given_models
from ..common.machine import describe_machine
from ..common.prompts import RandomWords
from ..common.random_gguf import HALF_BILLION, random_model_directory
from ..common.repetitions import Seeds
from ..common.report import BenchReport, Table
from .agent_turn import AGENT_METHOD, has_agent_turns, measure_agent_turns
from .figures import Sweep, figure6, figure7, figures_of, points_table, simulated_method
from .live import LOAD, Live, LiveSize
from .llama_cpp import LLAMA_CPP_METHOD, llama_cpp_peer
from .load import Lengths, recorded_lengths
from .peer import Peer, PeerAddress
from .reactive import REACTIVE_METHOD, Reactive
from .sides import Side, open_sides
from .simulated import decision_us
from .texts import ChatFields
from .waits import FEW_LENGTHS, LENGTHS, WAITS_METHOD, measure_waits, waits_table

_LARGER: Final = "0.5B"


@dataclass(frozen=True, slots=True)
class _Size:
    """Amount of work of one run."""

    live: LiveSize
    sweep: Sweep
    """Simulated loads."""
    wait_lengths: tuple[int, ...]
    wait_arrivals: int
    """Questions beside background prompts of each length."""
    models: tuple[str, ...]


_QUICK = _Size(
    LiveSize(8, 1, 6),
    Sweep((0.05, 0.2, 0.8), (10.0,), range(3), 10, 30),
    FEW_LENGTHS,
    16,
    ("nano",),
)
_FULL = _Size(
    LiveSize(12, 2, 32, (1.3,)),
    Sweep((0.05, 0.1, 0.2, 0.4, 0.8), (10.0, 20.0, 40.0), range(10), 20, 60),
    LENGTHS,
    60,
    ("nano", _LARGER),
)


@dataclass(frozen=True, slots=True)
class _GivenSize:
    """Amount of work of one run on a model that the user names."""

    live: LiveSize
    reactive: int
    """Repetitions of a question beside a prefill and beside answers."""
    agents: int
    """Repetitions of an agent's conversation."""
    every_policy: bool
    """Whether greedy tokens are compared under policies other than the default, too."""


_GIVEN: Final = {
    True: _GivenSize(LiveSize(2, 1, 4, longest=300), 2, 1, every_policy=False),
    False: _GivenSize(LiveSize(2, 2, 6, longest=800), 5, 3, every_policy=True),
}
"""The quick one, and the full one."""


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    peers: Sequence[PeerAddress] = (),
    seeds: Seeds | None = None,
    model: str | None = None,
) -> BenchReport:
    """Run the bench. ``workloads`` is a folder of public sets for lengths and arrivals.

    ``seeds`` are those of each simulated load, which is run once for each, with other requests.
    ``peers`` serve the larger model; with peers it is measured even when ``quick``. Raises
    :class:`~agentrt.errors.BenchPeerError` before any work when one of them does not serve it.

    With ``model``, this model is measured live, which the peers serve then; what is simulated does not depend
    on a model and is left out.
    """
    size = _QUICK if quick else _FULL
    if seeds is not None:
        size = replace(size, sweep=replace(size.sweep, seeds=seeds.take(len(size.sweep.seeds))))
    if len({peer.name for peer in peers}) < len(peers):
        raise ConfigurationError("--peer has the same name twice. Give each of llama_cpp and vllm once.")
    lengths = recorded_lengths(workloads)
    if model is not None:
        return _run_given(model, peers, lengths, workloads, _GIVEN[quick], progress)
    if peers:
        size = replace(size, models=(*(name for name in size.models if name != _LARGER), _LARGER))
        progress("asking the peers for a few tokens")
    serving = [Peer(address) for address in peers]
    figures: dict[str, float] = {}
    tables: list[Table] = []
    for name in size.models:
        beside = serving if name == _LARGER else ()
        model_of_bench = _own_model(name, progress)
        progress(f"{name}: loading both sides")
        with open_sides(model_of_bench) as sides:
            engines: dict[str, Side | Peer] = {**sides, **{peer.name: peer for peer in beside}}
            own, found = Live(name, lengths, workloads, size.live, engines, progress).measure()
        # The figures are those of the larger model measured, which comes last; the table has all.
        figures |= own
        tables += found
    progress("greedy tokens under every policy")
    figures["tokens_identical"] = _tokens_identical(_own_model("nano", progress))
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


def _run_given(
    name: str,
    peers: Sequence[PeerAddress],
    lengths: Lengths,
    workloads: Path | None,
    size: _GivenSize,
    progress: Callable[[str], None],
) -> BenchReport:
    """Measure the model that the user names so."""
    model = open_given_models([name], progress)[name]
    if model.gguf is not None:
        require_extra("bench")  # llama.cpp
    beside = _PEERS if peers else ""
    serving: dict[str, Side | Peer] = {address.name: Peer(address, ChatFields(model)) for address in peers}
    with ExitStack() as stack:
        progress(f"{model.title}: loading all sides")
        if model.gguf is not None and "llama_cpp" not in serving:
            serving["llama_cpp"] = stack.enter_context(llama_cpp_peer(model))
            beside += LLAMA_CPP_METHOD
        engines = {**stack.enter_context(open_sides(model)), **serving}
        figures, tables = Live(model.title, lengths, workloads, size.live, engines, progress).measure()
        questions, table = Reactive(engines, size.reactive, progress).measure()
        figures |= questions
        tables += [table]
    agent = model.gguf is not None and has_agent_turns(model)
    if agent:
        ratio, found = measure_agent_turns(model, size.agents, progress)
        figures |= ratio
        tables += found
    progress("greedy tokens in batches")
    figures["tokens_identical"] = _tokens_identical(model, every_policy=size.every_policy)
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=tuple(tables),
        method=f"{_live_method([model.title], size.live, lengths, beside)}The user and the "
        "background ask about passages of English prose in the model's chat template. The simulated figures "
        f"(sim_*, decision_us_*) are left out: they do not depend on the model. {REACTIVE_METHOD}"
        f"{AGENT_METHOD if agent else ''}",
    )


def _own_model(name: str, progress: Callable[[str], None]) -> BenchModel:
    if name == "nano":
        return BenchModel.of(name, name, RandomWords)
    with tempfile.TemporaryDirectory() as folder:
        path = random_model_directory(Path(folder), HALF_BILLION, progress)
    return BenchModel.of(name, path, RandomWords)


def _tokens_identical(model: BenchModel, *, every_policy: bool = True) -> float:
    """Return the share of answers in f32 whose tokens are those of the request alone.

    The requests are answered together, under the default policy or all of them.
    """
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
    for policy in POLICIES if every_policy else [RuntimeConfig().policy]:
        config = RuntimeConfig.model_validate(
            {
                "inference_precision": "f32",
                "kv_cache_precision": "f32",
                "dynamic_quantization_group_size": 0,  # else a chunk of one token differs (decision 0028)
                "memory_bytes": 256 * 2**20,
                "policy": policy,
            }
        )
        with LocalRuntime.open(model.path, config) as runtime:
            if not said:
                said.append(
                    [
                        runtime.generate([{"role": "user", "content": prompt}], max_tokens=24).token_ids
                        for prompt in prompts
                    ]
                )
            said.append(asyncio.run(answers(runtime)))
    alone, *together = said
    equal = [one == other for answers in together for one, other in zip(alone, answers, strict=True)]
    return sum(equal) / len(equal)


def _simulate(
    lengths: Lengths, size: _Size, progress: Callable[[str], None]
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
        waits_table(waits),
    ]


_PEERS: Final = (
    "Servers that the user started beside it, with the same weights and as the table says, take their turn "
    "under the same schedules, of the larger model if several are measured, over HTTP, which is in their "
    "times; vLLM is told priorities, llama.cpp knows none. "
)


def _method(size: _Size, lengths: Lengths, peers: Sequence[Peer]) -> str:
    return (
        f"{_live_method(size.models, size.live, lengths, _PEERS if peers else '')}"
        "The 0.5 B model has random int8 weights (GGUF, Q8_0). "
        f"{simulated_method(size.sweep)}{WAITS_METHOD}"
        "Decisions: the median "
        "while so many requests wait, on that simulated machine."
    )


def _live_method(models: Sequence[str], size: LiveSize, lengths: Lengths, beside: str) -> str:
    """Return how the models were measured live; ``beside`` is about engines beside the two."""
    return (
        f"Live: {' and '.join(models)} on this machine, agentrt and openvino_genai's "
        "ContinuousBatchingPipeline (256 tokens a step, split prompts, at most 16 sequences, no "
        "prefix cache) in a process each, both with OpenVINO's own precisions and threads, in turns, "
        f"the other one idle. A schedule of proactive requests ({LOAD:.0%} of the machine) and of a "
        "user who asks one thing after another, each when the answer before is there and thought over "
        f"({size.users} questions, {size.repetitions} rounds), {lengths.source}; arrivals of the "
        "background in the shape of the Azure conversation trace "
        "where the workloads folder has it, else Poisson. Times count from when a request was meant "
        f"to arrive. {beside}"
        "'Over unloaded' compares each question with the same one on the idle engine. "
        "Added wait: until the first kernel, beyond that on the idle engine. Preemption: what was "
        "left of the background kernel that ran when a question came. Kept fraction: the time that a "
        "backlog and a user's questions need one after the other, over the time that the backlog "
        f"needs beside them. Throughput: {size.backlog} proactive requests at once, to the last answer. "
    )
