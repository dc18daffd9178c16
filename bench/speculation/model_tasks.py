"""Requests for real models, each with its tools: BFCL's tasks, or requests with ten tools."""

from __future__ import annotations

import asyncio
import itertools
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

_FILE = "bfcl_single.jsonl"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_TOOLS = 4
_MOST_CHARACTERS = 2400  # of the tools' schemas: prompts that a small model reads in a second


REQUESTS = (
    "What is the weather in Oslo?",
    "What does the mail about the roof repair say?",
    "What is on my calendar tomorrow?",
    "What does my note about lasagne say?",
    "Find my notes about the garden",
    "How warm is it in Lisbon?",
    "What does the file about the budget say?",
    "What is the weather in Bergen?",
    "Write a note: buy candles and a new kettle",
    "Search my mail for the train tickets",
    "What is on my calendar on Friday?",
    "Read the note about the boiler",
    "How is the weather in Turin?",
    "Find my files about the move",
    "What does the mail about the choir say?",
    "What is the weather in Porto?",
)
_TOOLS = {
    "search_notes": ("Search the user's notes.", "query"),
    "read_note": ("Read a note by id.", "id"),
    "create_note": ("Create a note.", "text"),
    "list_events": ("List the events on a date.", "date"),
    "add_event": ("Add a calendar event.", "title", "date", "time"),
    "search_mail": ("Search the mail.", "query"),
    "read_mail": ("Read a mail by id.", "id"),
    "search_files": ("Search the files.", "query"),
    "read_file": ("Read a file.", "path"),
    "get_weather": ("Get the weather in a city.", "city"),
}
"""Tools of :data:`REQUESTS`: what each does, and its parameters, which are texts."""
_WRITE = frozenset({"create_note", "add_event"})
"""The tools that are not speculable."""


@dataclass(slots=True)
class ToolLatency:
    """The seconds that each run of a tool takes."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A request, and the schemas of its tools."""

    request: str
    schemas: tuple[Mapping[str, Any], ...]
    source: str
    """What it is from: BFCL, or the requests with ten tools."""

    def tools(self, latency: ToolLatency) -> list[BaseTool]:
        """Return the task's tools, which take the set time and have made-up results."""
        return [_tool(each, latency) for each in self.schemas]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    ground_truth: list[Any]


def model_tasks(workloads: Path | None, count: int, *, seed: int = 0) -> list[ModelTask]:
    """Return ``count`` tasks.

    With the folder ``workloads`` every second one is of BFCL's single-turn tasks that offer two to four tools
    and need one call; the others, or all without a folder, are requests with the ten tools. There are 16 of
    these; ``seed`` draws of both.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    drawn, schemas = random.Random(seed), tuple(_schema(name, *each) for name, each in _TOOLS.items())
    own = [ModelTask(request, schemas, "ten tools") for request in drawn.sample(REQUESTS, len(REQUESTS))]
    if workloads is None:
        return own[:count]
    own = own[: count // 2]
    found = bfcl_tasks(workloads, count - len(own), drawn)
    return [task for pair in itertools.zip_longest(found, own) for task in pair if task is not None]


def bfcl_tasks(workloads: Path, count: int, drawn: random.Random) -> list[ModelTask]:
    """Draw ``count`` of BFCL's single-turn tasks that offer two to four tools and need one call.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    fitting = [
        ModelTask(str(record.messages[0]["content"]), tuple(record.tools), "BFCL")
        for record in read_records(workloads / _FILE, _Record)
        if len(record.messages) == 1 and len(record.ground_truth) == 1 and _fits(record.tools)
    ]
    if len(fitting) < count:
        raise WorkloadNotFoundError(
            f"{workloads / _FILE} has {len(fitting)} fitting tasks, and {count} are needed. "
            "Name the folder in which the whole file lies."
        )
    return drawn.sample(fitting, count)


def _fits(schemas: Sequence[Mapping[str, Any]]) -> bool:
    names = [schema["function"]["name"] for schema in schemas]
    short = len(json.dumps(schemas)) <= _MOST_CHARACTERS
    return 2 <= len(names) <= _MOST_TOOLS and short and all(map(_NAME.fullmatch, names))


def _schema(name: str, description: str, *parameters: str) -> Mapping[str, Any]:
    properties = {each: {"type": "string"} for each in parameters}
    given = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": given}}


def _tool(schema: Mapping[str, Any], latency: ToolLatency) -> BaseTool:
    function = schema["function"]

    async def run(**arguments: Any) -> str:
        await asyncio.sleep(latency.seconds)
        return json.dumps({"done": function["name"], **arguments})

    made: BaseTool = StructuredTool(
        name=function["name"],
        description=function.get("description", ""),
        args_schema=dict(function["parameters"]),
        coroutine=run,
    )
    return made if function["name"] in _WRITE else speculable(made)
