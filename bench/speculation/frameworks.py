"""Claims and tool runs of agents of many frameworks, each with drafts that are always right.

A tool must run once for each of the model's calls, however a framework makes the call: with its id, without
one, or with an id that the endpoint repeats. The transcript must be that of the framework without agentrt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ..common.report import Table
from . import langchain_frameworks, openai_frameworks, session_frameworks
from .scripted import GENERATION_S, TOOL_S, Run, Script

METHOD = (
    f"Frameworks: {{turns}} turns of one call each on a scripted model ({1000 * GENERATION_S:g} ms a turn) "
    f"and a tool ({1000 * TOOL_S:g} ms) that counts its runs, with a predictor that is always right, and the "
    "same without agentrt. frameworks_tried counts the rows of frameworks that are installed, and "
    "frameworks_claiming those of them that claimed a speculation with an equal transcript. double_runs is "
    "the sum over the frameworks of the runs of the tool beyond one for each call; claims_of_right_drafts is "
    "the share of right drafts that were claimed. A framework that is not installed has an empty row."
)


@dataclass(frozen=True, slots=True)
class FrameworkResult:
    """Counts of one framework."""

    calls: int
    runs: int
    right_drafts: int
    claims: int
    equal: bool
    """Whether the transcript is that of the framework without agentrt."""
    error: str = ""
    """What the framework raised, if its run failed; then there are no counts."""

    @property
    def double_runs(self) -> int:
        """Runs of the tool beyond one for each call."""
        return self.runs - self.calls

    @property
    def claiming(self) -> bool:
        """Whether a speculation was claimed with an equal transcript."""
        return self.claims > 0 and self.equal


async def measure_framework(run: Run, turns: int) -> FrameworkResult:
    """Let an agent make ``turns`` calls without agentrt, and then with it."""
    plain, script = Script(turns, speculative=False), Script(turns)
    await run(plain)
    report = await run(script)
    claims = 0 if report is None else report.total.claims
    equal = bool(plain.transcript) and script.transcript == plain.transcript
    return FrameworkResult(turns, len(script.runs), script.right_drafts, claims, equal)


def measure_frameworks(turns: int, progress: Callable[[str], None]) -> dict[str, FrameworkResult | None]:
    """Let an agent of every framework make ``turns`` calls; None stands for one that is not installed."""
    results: dict[str, FrameworkResult | None] = {}
    for name, (package, run) in FRAMEWORKS.items():
        progress(f"tool runs of {name}")
        results[name] = None
        if find_spec(package) is not None:
            try:
                results[name] = asyncio.run(measure_framework(run, turns))
            except Exception as error:  # noqa: BLE001 - the row says it, and the framework does not claim
                results[name] = FrameworkResult(0, 0, 0, 0, equal=False, error=repr(error))
    return results


def figures(results: Mapping[str, FrameworkResult | None]) -> dict[str, float]:
    """Figures over all frameworks that are installed."""
    measured = [each for each in results.values() if each is not None]
    right = sum(each.right_drafts for each in measured)
    return {
        "frameworks_claiming": float(sum(each.claiming for each in measured)),
        "frameworks_tried": float(len(measured)),
        "double_runs": float(sum(each.double_runs for each in measured)),
        "claims_of_right_drafts": sum(each.claims for each in measured) / right if right else 0.0,
    }


_COLUMNS = ("calls", "tool runs", "double runs", "right drafts", "claims", "transcript")


def table(results: Mapping[str, FrameworkResult | None]) -> Table:
    """One row a framework."""
    return Table(
        title="tool runs by framework",
        columns=("framework", *_COLUMNS),
        rows=tuple(
            (f"{name} (not installed)", *[None for _ in _COLUMNS]) if each is None else (name, *_row(each))
            for name, each in results.items()
        ),
    )


def _row(result: FrameworkResult) -> tuple[Any, ...]:
    counts = result.calls, result.runs, result.double_runs, result.right_drafts, result.claims
    return *counts, result.error or ("equal" if result.equal else "differs")


FRAMEWORKS: dict[str, tuple[str, Run]] = {
    "LangGraph, tool.invoke(args)": (
        "langgraph",
        langchain_frameworks.own_node(lambda tool, calls: [tool.invoke(call["args"]) for call in calls]),
    ),
    "LangGraph, tool.batch(args)": (
        "langgraph",
        langchain_frameworks.own_node(lambda tool, calls: tool.batch([call["args"] for call in calls])),
    ),
    "LangGraph, tool.func(**args)": (
        "langgraph",
        langchain_frameworks.own_node(lambda tool, calls: [tool.func(**call["args"]) for call in calls]),  # type: ignore[misc]
    ),
    "LangGraph, ToolNode": ("langgraph", langchain_frameworks.tool_node),
    "LangChain, create_agent": ("langchain", langchain_frameworks.created),
    "LangChain, MCP adapters": ("langchain_mcp_adapters", session_frameworks.langchain_mcp_adapters),
    "deepagents": ("deepagents", langchain_frameworks.deep_agent),
    "langgraph-supervisor": ("langgraph_supervisor", langchain_frameworks.supervisor),
    "openai-agents": ("agents", openai_frameworks.openai_agents),
    "openai-agents, speculating client": ("agents", openai_frameworks.openai_agents_on_client),
    "pydantic-ai": ("pydantic_ai", openai_frameworks.pydantic_ai),
    "pydantic-ai, speculating client": ("pydantic_ai", openai_frameworks.pydantic_ai_on_client),
    "smolagents": ("smolagents", openai_frameworks.smolagents),
    "OpenAI chat completions, repeated ids": ("openai", openai_frameworks.chat_completions),
    "OpenAI responses": ("openai", openai_frameworks.responses),
    "MCP client and session": ("mcp", session_frameworks.mcp),
    "session, calls without ids": ("agentrt", session_frameworks.without_ids),
}
"""The package that each framework needs, and its run."""
