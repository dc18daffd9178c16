"""The speculation bench: time saved against the optimum of Eq. 1, plain agents, and peers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentrt.errors import WorkloadNotFoundError

from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from . import patterns

_METHOD = "transcripts_equal is the share of all runs whose messages are those of the plain run but for ids."


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Measure the time that speculation saves, and its cost where it saves none.

    ``workloads`` is a folder with BFCL's multi-turn tasks and recorded conversations; without the former
    the controlled runs use synthetic ones, without the latter the pattern part is left out.
    """
    from . import controlled as _speculation_controlled
    from . import nano as _speculation_nano
    from . import overhead as _speculation_overhead
    from . import peers as _speculation_peers
    from .agent_tasks import agent_tasks

    nano_figures, nano_table = _speculation_nano.nano_figures, _speculation_nano.nano_table
    machine = describe_machine()
    source, tasks = agent_tasks(workloads, 64)
    scale = 0.03 if quick else 0.1
    nano = _speculation_nano.measure_nano(quick=quick, progress=progress)
    controlled = _speculation_controlled.Controlled(tasks, scale, quick, progress)
    controlled.run()
    progress("the cost of speculating at all")
    median_ms, p99_ms = asyncio.run(_speculation_overhead.overhead_ms(300 if quick else 2000))
    peers, peer_table, peer_equal = _peers(quick, workloads, progress)
    drafted = _patterns(quick, workloads, progress)
    paced, unpaced = nano_figures(nano.paced), nano_figures(nano.unpaced)
    equal = [
        *(each.equal for each in (*nano.paced, *nano.unpaced)), controlled.equal, sum(peer_equal),
    ]  # fmt: skip
    pairs = [
        *(each.pairs for each in (*nano.paced, *nano.unpaced)), controlled.pairs, len(peer_equal),
    ]  # fmt: skip
    return BenchReport(
        bench="speculation",
        machine=machine,
        figures={
            **paced,
            "time_saved_pct_unpaced": unpaced["time_saved_pct"],
            "model_optimum_pct_unpaced": unpaced["model_optimum_pct"],
            "claim_rate_unpaced": unpaced["claim_rate"],
            **controlled.figures,
            "sdk_overhead_ms_per_turn_p50": median_ms,
            "sdk_overhead_ms_per_turn_p99": p99_ms,
            **peers,
            **patterns.figures(drafted),
            "transcripts_equal": sum(equal) / sum(pairs),
        },
        tables=(
            nano_table(f"nano pair, main model held to {_speculation_nano.PACE:g} tokens/s", nano.paced),
            nano_table("nano pair, unpaced", nano.unpaced),
            nano.by_samples,
            *controlled.tables,
            peer_table,
            *([patterns.table(drafted)] if drafted else []),
        ),
        method=" ".join(
            (
                _speculation_nano.METHOD.format(threads=nano.threads, pace=_speculation_nano.PACE),
                _speculation_controlled.METHOD.format(source=source, scale=scale),
                _speculation_overhead.METHOD,
                _speculation_peers.METHOD,
                *([patterns.METHOD] if drafted else []),
                _METHOD,
            )
        ),
    )


def _patterns(
    quick: bool, workloads: Path | None, progress: Callable[[str], None]
) -> list[patterns.PatternResult]:
    if workloads is None:
        return []
    try:
        return patterns.measure(workloads, quick=quick, progress=progress)
    except WorkloadNotFoundError as error:
        progress(str(error))
        return []


def _peers(
    quick: bool, workloads: Path | None, progress: Callable[[str], None]
) -> tuple[dict[str, float], Table, list[bool]]:
    from .agent_tasks import agent_tasks
    from .openai_peer import compare_openai
    from .peers import compare, streamed_tasks
    from .timed_agents import Times

    _, tasks = agent_tasks(workloads, 1 if quick else 8)
    generation = 0.2 if quick else 0.5
    times = Times(generation, generation / 10, generation)
    seconds: dict[str, float] = {}
    rows = []
    equal = []
    for calls_a_turn in (1, 2):
        progress(f"peers, {calls_a_turn} call(s) a turn")
        streamed = streamed_tasks([task.calls for task in tasks], calls_a_turn)
        results = asyncio.run(compare(streamed, times))
        equal += [one == other for one, other in zip(results["plain"][1], results["agentrt"][1], strict=True)]
        openai = asyncio.run(compare_openai(streamed, times))
        equal.append(openai["agentrt"][1] == openai["openai eager runner"][1])
        sides = {
            "plain": results["plain"][0],
            "eager-tools-langgraph": results["eager-tools-langgraph"][0],
            "agentrt": results["agentrt"][0],
            "openai eager runner": openai["openai eager runner"][0],
            "agentrt on the openai client": openai["agentrt"][0],
        }
        rows.append((calls_a_turn, *(round(each, 3) for each in sides.values())))
        for name, each in sides.items():
            seconds[name] = seconds.get(name, 0.0) + each
    figures = {
        "ratio_vs_eager_tools": seconds["eager-tools-langgraph"] / seconds["agentrt"],
        "ratio_vs_openai_eager_runner": seconds["openai eager runner"]
        / seconds["agentrt on the openai client"],
    }
    columns = ("calls a turn", *(f"{name} s" for name in seconds))
    return figures, Table(title="peers, the same streamed answers", columns=columns, rows=tuple(rows)), equal
