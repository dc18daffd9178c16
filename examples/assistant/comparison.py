"""The same requests asked of a plain and of a speculating agent, under equal background work.

Each run has a fresh copy of the data, the same runtime, the same requests in the same order and the same
background tasks, which start with the first request. Both agents answer one warm-up request beforehand.
Speculation may change when things happen, never what is said: the two transcripts must be equal.
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
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.runtime import LocalRuntime

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
from .data import PersonalData, copy_data, workspace
from .folder_index import FolderIndex
from .guesses import GuessCounter, Guesses
from .requests import requests_about
from .stopwatch import Stopwatch
from .view import View
from .weather import WeatherService

_WARM_UP = "What is the weather in Oslo?"


@dataclass(frozen=True)
class Turn:
    """One request and what came of it; times in seconds."""

    request: str
    transcript: str
    seconds: float
    model_calls: int
    model_seconds: float
    tool_seconds: float
    guesses: Guesses


@dataclass(frozen=True)
class Run:
    """All turns of one agent, the answers of the background tasks, and what the runtime wrote for all."""

    turns: tuple[Turn, ...]
    digest: dict[str, str]
    index: dict[str, str]
    tokens_per_second: float

    @property
    def seconds(self) -> float:
        """What the user has waited in all."""
        return sum(turn.seconds for turn in self.turns)


@dataclass(frozen=True)
class Comparison:
    """A plain and a speculative run."""

    plain: Run
    speculative: Run

    def differences(self) -> str:
        """A diff of the transcripts and background answers; empty if they are equal, as they must be."""
        return "\n".join(
            difflib.unified_diff(
                _everything_said(self.plain),
                _everything_said(self.speculative),
                "plain",
                "speculative",
                lineterm="",
            )
        )


def compare(
    source: Path,
    weather_delay: float,
    view: View,
    *,
    model: str = "nano",
    requests: Sequence[str] | None = None,
) -> Comparison:
    """Run both agents on copies of the data in ``source``; by default on requests made from that data.

    ``weather_delay`` is how long the weather service waits before it answers, in seconds; ``model`` is what
    :meth:`LocalRuntime.open` takes.
    """
    with (
        workspace() as folder,
        WeatherService(weather_delay) as weather,
        open_runtime(model) as runtime,
    ):
        for name in ("plain", "speculative"):
            copy_data(source, folder / name)
        if requests is None:
            with contextlib.closing(PersonalData.open(folder / "plain")) as data:
                requests = requests_about(data)
        # The same day for both runs, even if one of them ends after midnight.
        runner = _Runner(folder, dt.date.today(), weather.url, runtime, requests, view)
        return asyncio.run(runner.both())


@dataclass(frozen=True)
class _Runner:
    """What both runs have in common."""

    folder: Path
    today: dt.date
    weather_url: str
    runtime: LocalRuntime
    requests: Sequence[str]
    view: View

    async def both(self) -> Comparison:
        model = ChatAgentRT(runtime=self.runtime, max_tokens=MOST_TOKENS)
        counter = GuessCounter(self.view)
        plain = await self._run("plain", model, model, counter)
        guessing = await asyncio.to_thread(speculative, model, [counter])
        return Comparison(plain, await self._run("speculative", guessing, model, counter))

    async def _run(
        self, name: str, model: BaseChatModel, background_model: BaseChatModel, counter: GuessCounter
    ) -> Run:
        folder = self.folder / name
        data = await asyncio.to_thread(PersonalData.open, folder, lambda: self.today)
        try:
            async with httpx.AsyncClient(base_url=self.weather_url) as client:
                tools = assistant_tools(data, client)
                background = assistant_agent(background_model, tools)
                agent = assistant_agent(model, tools)
                await ask_quietly(agent, _WARM_UP)
                counter.take()
                self.view.run(name, len(self.requests))
                index = FolderIndex(folder / "index.db")
                began, written = time.perf_counter(), self.runtime.statistics().engine.sampled_tokens
                async with asyncio.TaskGroup() as tasks:
                    beside = tasks.create_task(self._background(background, data, index))
                    turns = [await self._turn(agent, request, counter) for request in self.requests]
                written = self.runtime.statistics().engine.sampled_tokens - written
                rate = written / (time.perf_counter() - began)
                return Run(tuple(turns), *beside.result(), rate)
        except ExceptionGroup as failures:
            # The first failure has cancelled the rest; callers should see it as itself.
            raise failures.exceptions[0] from failures
        finally:
            data.close()

    async def _background(
        self, agent: Agent, data: PersonalData, index: FolderIndex
    ) -> tuple[dict[str, str], dict[str, str]]:
        digest = await digest_mail(agent, data, self.view)
        return digest, await index_files(agent, data, index, self.view)

    async def _turn(self, agent: Agent, request: str, counter: GuessCounter) -> Turn:
        self.view.request(request)
        stopwatch = Stopwatch()
        began = time.perf_counter()
        messages = await ask(agent, [HumanMessage(request)], self.view, [stopwatch])
        turn = Turn(
            request,
            _transcript(messages),
            time.perf_counter() - began,
            stopwatch.model_calls,
            stopwatch.model_seconds,
            stopwatch.tool_seconds,
            counter.take(),
        )
        self.view.turn(turn.seconds)
        return turn


def _transcript(messages: Sequence[AnyMessage]) -> str:
    """All that was said and done, without ids and times."""
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


def _everything_said(run: Run) -> list[str]:
    turns = [f"user {turn.request}\n{turn.transcript}" for turn in run.turns]
    background = [
        f"{name} {answer}" for name, answer in [*sorted(run.digest.items()), *sorted(run.index.items())]
    ]
    return "\n".join([*turns, *background]).splitlines()
