"""BFCL's tasks on the servers that return calls, agentrt's and llama.cpp's: the share with exact calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentrt.calls import ToolCall, parse_arguments

from ..common.estimates import Estimate, bootstrap, share
from ..common.report import Cell, Table
from ..engines.llama_cpp import LLAMA_CPP
from ..engines.local import OURS
from ..models.bfcl import Task, load_first_calls, load_tasks
from ..models.main import calls_in
from .servers import Server

REREAD: Final = f"{LLAMA_CPP}_reread"
"""llama.cpp's answers, whose text agentrt's parser reads where llama.cpp found no call."""
_SETS: Final = {False: "development", True: "held back"}
_MOST_TOKENS: Final = 256
"""Of an answer with calls."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One task, and whether each side solved it."""

    group: str
    held_back: bool
    solved: Mapping[str, bool]


def load_groups(folder: Path, counts: Mapping[bool, int]) -> dict[tuple[str, bool], list[Task]]:
    """Return tasks by group and whether nothing is tuned on them; ``counts`` says how many of each group.

    Raises:
        WorkloadError: a file is missing, or damaged.
    """
    groups: dict[tuple[str, bool], list[Task]] = {}
    for held_back, count in counts.items():
        single = dict.fromkeys(("multiple", "parallel", "irrelevance"), count)
        for group, tasks in load_tasks(folder, single, held_back=held_back).items():
            groups[group, held_back] = tasks
        groups["multi_turn", held_back] = load_first_calls(folder, count, held_back=held_back)
    return groups


def measure_calls(
    servers: Mapping[str, Server],
    groups: Mapping[tuple[str, bool], Sequence[Task]],
    progress: Callable[[str], None],
) -> tuple[dict[str, Estimate], Table]:
    """Put each task to agentrt and to llama.cpp, greedily, and return figures and table."""
    ours, peer = servers[OURS], servers[LLAMA_CPP]
    format = ours.process.call("call_format") or "hermes"
    asked = []
    for (group, held_back), tasks in groups.items():
        for number, task in enumerate(tasks, 1):
            progress(f"BFCL, {group}, {_SETS[held_back]}, task {number} of {len(tasks)}")
            (_, own), (text, theirs) = _answer(ours, task), _answer(peer, task)
            reread = theirs or calls_in(text, format, task.tools)
            calls = {OURS: own, LLAMA_CPP: theirs, REREAD: reread}
            solved = {side: task.solved_by(made) for side, made in calls.items()}
            asked.append(Asked(group, held_back, solved))
    return figures_of(asked), calls_table(asked)


def _answer(server: Server, task: Task) -> tuple[str, list[ToolCall]]:
    message = server.ask(
        {"messages": task.messages, "tools": task.tools, "temperature": 0, "max_tokens": _MOST_TOKENS}
    )
    return message.get("content") or "", [_call(made["function"]) for made in message.get("tool_calls") or ()]


def _call(made: Mapping[str, Any]) -> ToolCall:
    try:
        return ToolCall(made["name"], parse_arguments(made["arguments"]))
    except ValueError:  # it was cut off
        return ToolCall(made["name"], {})


def figures_of(asked: Sequence[Asked]) -> dict[str, Estimate]:
    """Return the shares of held-back tasks, and by how much they differ on the same tasks."""
    held_back = [each for each in asked if each.held_back]
    figures = {}
    for group in dict.fromkeys(each.group for each in held_back):
        figures[f"bfcl_{group}_exact"] = _exact([each for each in held_back if each.group == group], OURS)
    for side in (LLAMA_CPP, REREAD) if held_back else ():
        figures[f"bfcl_exact_difference_vs_{side}"] = _difference(held_back, side)
    return figures


def _exact(asked: Sequence[Asked], side: str) -> Estimate:
    return share(sum(each.solved[side] for each in asked), len(asked))


def _difference(asked: Sequence[Asked], side: str) -> Estimate:
    """Return our share less that of ``side``, on the same tasks."""
    return bootstrap([each.solved[OURS] - each.solved[side] for each in asked], statistics.fmean)


def calls_table(asked: Sequence[Asked]) -> Table:
    """Return the shares by group and set."""
    rows: list[tuple[Cell, ...]] = []
    for group, held_back in dict.fromkeys((each.group, each.held_back) for each in asked):
        tasks = [each for each in asked if (each.group, each.held_back) == (group, held_back)]
        shares = [_exact(tasks, side) for side in (OURS, LLAMA_CPP, REREAD)]
        difference = _difference(tasks, REREAD)
        rows.append((group, _SETS[held_back], len(tasks), *shares, difference))
    return Table(
        title="BFCL's tasks with exact calls",
        columns=("category", "set", "tasks", OURS, LLAMA_CPP, REREAD, f"difference to {REREAD}"),
        rows=tuple(rows),
    )
