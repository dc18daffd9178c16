"""Requests for real models, each with its tools: BFCL's tasks, or the ten tools over fixed data."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, ConfigDict

from agentrt import speculable
from agentrt.errors import WorkloadNotFoundError

from ..common.workloads import read_records
from .tasks import REQUESTS, TimedTools

_FILE = "bfcl_single.jsonl"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_TOOLS = 4
_MOST_CHARACTERS = 2400  # of the tools' schemas: prompts that a small model reads in a second


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A request, and the schemas of its tools; None for the ten tools over fixed data."""

    request: str
    schemas: tuple[Mapping[str, Any], ...] | None = None

    def tools(self, timed: TimedTools) -> list[BaseTool]:
        """Return the task's tools, which take the time that ``timed`` sets."""
        return timed.tools() if self.schemas is None else [_tool(each, timed) for each in self.schemas]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    ground_truth: list[Any]


def model_tasks(workloads: Path | None, count: int, *, seed: int = 0) -> list[ModelTask]:
    """Return ``count`` tasks.

    With the folder ``workloads`` they are BFCL's single-turn tasks that offer two to four tools and need one
    call, drawn by ``seed``; without it, requests with the ten tools.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    if workloads is None:
        return [ModelTask(request) for request in REQUESTS[:count]]
    fitting = [
        ModelTask(str(record.messages[0]["content"]), tuple(record.tools))
        for record in read_records(workloads / _FILE, _Record)
        if len(record.messages) == 1 and len(record.ground_truth) == 1 and _fits(record.tools)
    ]
    if len(fitting) < count:
        raise WorkloadNotFoundError(
            f"{workloads / _FILE} has {len(fitting)} fitting tasks, and {count} are needed. "
            "Name the folder in which the whole file lies."
        )
    return random.Random(seed).sample(fitting, count)


def _fits(schemas: Sequence[Mapping[str, Any]]) -> bool:
    names = [schema["function"]["name"] for schema in schemas]
    short = len(json.dumps(schemas)) <= _MOST_CHARACTERS
    return 2 <= len(names) <= _MOST_TOOLS and short and all(map(_NAME.fullmatch, names))


def _tool(schema: Mapping[str, Any], timed: TimedTools) -> BaseTool:
    function = schema["function"]

    async def run(**arguments: Any) -> str:
        return await timed.answer({"done": function["name"], **arguments})

    made: BaseTool = StructuredTool(
        name=function["name"],
        description=function.get("description", ""),
        args_schema=dict(function["parameters"]),
        coroutine=run,
    )
    return speculable(made)
