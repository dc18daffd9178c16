"""Runs the same requests through a plain and a speculative agent, beside the same background work.

Both agents share one runtime; each has a fresh copy of the data. Both answer every request, one right after
the other, so that other load on the machine affects both alike. Background tasks run during all of it.
Speculation may change when things happen, never what is said: the transcripts must be equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import difflib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.runtime import LocalRuntime

from ..assistant.data import PersonalData, copy_data, workspace
from ..assistant.folder_index import FolderIndex
from ..assistant.paced import PacedChatAgentRT
from ..assistant.requests import requests_about
from ..assistant.speculation_counter import SpeculationCounter, SpeculationCounts
from ..assistant.stopwatch import Stopwatch
from ..assistant.view import View
from ..assistant.weather import WeatherService
from ..personal_assistant import (
    MOST_TOKENS,
    Agent,
    ask,
    ask_quietly,
    assistant_agent,
    assistant_tools,
    digest_mail,
    index_files,
    open_runtime,
    speculative,
)

_WARM_UP = "What is the weather in Oslo?"


@dataclass(frozen=True)
class Turn:
    """One answered request; times in seconds."""

    request: str
    transcript: str
    seconds: float
    model_calls: int
    model_seconds: float
    tool_seconds: float
    tool_calls: int
    counts: SpeculationCounts


@dataclass(frozen=True)
class Comparison:
    """The same requests answered by both agents, and the results of the background tasks."""

    plain: tuple[Turn, ...]
    speculative: tuple[Turn, ...]
    digest: dict[str, str]
    """The agent's answer about each new mail, by id."""
    index: dict[str, str]
    """The agent's answer about each file, by path."""
    tokens_per_second: float
    """Tokens that the model sampled for all requests together."""
    exact: bool
    """Whether the model computes in full precision, so that equal transcripts are promised."""

    @property
    def tools_ran(self) -> bool:
        """Whether the model called any tool."""
        return any(turn.tool_calls for turn in (*self.plain, *self.speculative))

    def differences(self) -> str:
        """Return a diff of both transcripts; empty if they are equal, as they must be."""
        plain, speculative = (
            "\n".join(f"user {turn.request}\n{turn.transcript}" for turn in turns).splitlines()
            for turns in (self.plain, self.speculative)
        )
        return "\n".join(difflib.unified_diff(plain, speculative, "plain", "speculative", lineterm=""))


def compare(
    source: Path,
    weather_delay: float,
    view: View,
    *,
    model: str = "nano",
    pace: float = 0.0,
    requests: Sequence[str] | None = None,
) -> Comparison:
    """Run ``requests`` through both agents, by default questions about the data in ``source``.

    The data in ``source`` is copied, not changed. ``weather_delay`` is the latency of the weather service in
    seconds; ``model`` is what :func:`open_runtime` takes; ``pace`` limits the model to that many tokens per
    second for the user's requests, 0 sets no limit.
    """
    with (
        contextlib.ExitStack() as stack,
        workspace() as folder,
        WeatherService(weather_delay) as weather,
        open_runtime(model) as runtime,
    ):
        today = dt.date.today()  # one date for the whole run, also past midnight
        copies = {}
        for name in ("plain", "speculative"):
            copy_data(source, folder / name)
            copies[name] = PersonalData.open(folder / name, lambda: today)
            stack.callback(copies[name].close)
        index = FolderIndex(folder / "index.db")
        chosen = requests_about(copies["plain"]) if requests is None else requests
        return asyncio.run(
            _compare(copies["plain"], copies["speculative"], index, weather.url, runtime, pace, chosen, view)
        )


async def _compare(
    data: PersonalData,
    other_data: PersonalData,
    index: FolderIndex,
    weather_url: str,
    runtime: LocalRuntime,
    pace: float,
    requests: Sequence[str],
    view: View,
) -> Comparison:
    free = ChatAgentRT(runtime=runtime, max_tokens=MOST_TOKENS)
    model = (
        PacedChatAgentRT(runtime=runtime, max_tokens=MOST_TOKENS, tokens_per_second=pace) if pace else free
    )
    counter = SpeculationCounter(view)
    speculating = await asyncio.to_thread(speculative, model, [counter])
    async with httpx.AsyncClient(base_url=weather_url) as client:
        plain_agent = assistant_agent(model, assistant_tools(data, client))
        speculative_agent = assistant_agent(speculating, assistant_tools(other_data, client))
        background_agent = assistant_agent(free, assistant_tools(data, client))
        for agent in (plain_agent, speculative_agent):
            await ask_quietly(agent, _WARM_UP)
        counter.take()
        view.begin(len(requests))
        began, written = time.perf_counter(), runtime.statistics().engine.sampled_tokens
        plain: list[Turn] = []
        speculated: list[Turn] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                background = tasks.create_task(_background(background_agent, data, index, view))
                for number, request in enumerate(requests, 1):
                    pair = [("plain", plain_agent, plain), ("speculative", speculative_agent, speculated)]
                    # Alternate who goes first, in case the first run warms a cache for the second.
                    for name, agent, turns in pair if number % 2 else reversed(pair):
                        view.request(number, request, name)
                        turns.append(await _turn(agent, request, view, counter))
        except ExceptionGroup as failures:
            # The first failure has cancelled the rest; callers should see it as itself.
            raise failures.exceptions[0] from failures
        written = runtime.statistics().engine.sampled_tokens - written
        rate = written / (time.perf_counter() - began)
    exact = runtime.config.inference_precision == "f32"
    return Comparison(tuple(plain), tuple(speculated), *background.result(), rate, exact)


async def _background(
    agent: Agent, data: PersonalData, index: FolderIndex, view: View
) -> tuple[dict[str, str], dict[str, str]]:
    digest = await digest_mail(agent, data, view)
    return digest, await index_files(agent, data, index, view)


async def _turn(agent: Agent, request: str, view: View, counter: SpeculationCounter) -> Turn:
    stopwatch = Stopwatch()
    began = time.perf_counter()
    messages = await ask(agent, [HumanMessage(request)], view, [stopwatch])
    seconds = time.perf_counter() - began
    view.turn(seconds)
    return Turn(
        request,
        _transcript(messages),
        seconds,
        stopwatch.model_calls,
        stopwatch.model_seconds,
        stopwatch.tool_seconds,
        sum(isinstance(message, ToolMessage) for message in messages),
        counter.take(),
    )


def _transcript(messages: Sequence[AnyMessage]) -> str:
    """Return texts, calls and results, without ids and times."""
    lines = []
    for message in messages:
        if isinstance(message, AIMessage):
            lines += [
                f"call {call['name']} {json.dumps(call['args'], sort_keys=True)}"
                for call in message.tool_calls
            ]
        if message.text:
            lines.append(f"{message.type} {message.text}")
    return "\n".join(lines)
