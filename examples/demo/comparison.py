"""Runs the same requests through a plain and a speculative agent.

Both agents share one runtime and ask the same servers; each has a fresh copy of the data. Speculation may
change when things happen, never what is said: the transcripts must be equal.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agentrt.adapters.langchain import ChatAgentRT, report_of
from agentrt.reports import SpeculationObserver
from agentrt.runtime import LocalRuntime

from ..assistant.data import PersonalData
from ..assistant.paced import CHARACTERS_PER_TOKEN, PacedChatAgentRT
from ..assistant.services import Latencies
from ..personal_assistant import (
    MOST_MODEL_CALLS,
    MOST_TOKENS,
    Agent,
    ask,
    ask_quietly,
    assistant_agent,
    assistant_tools,
    speculative,
    system_prompt,
)
from .measures import SpeculationCounts, SpeculationLines, Stopwatch
from .view import DemoView, SideLog

_WARM_UP = "Hello!"  # it calls no tool, so that the predictor that learns starts empty
_LONGEST_S = 60.0  # after which no further request is asked; a large model on a small machine takes minutes


@dataclass(frozen=True)
class Turn:
    """One answered request; times in seconds."""

    request: str
    transcript: str
    seconds: float
    model_seconds: float
    tool_seconds: float
    tool_calls: int
    counts: SpeculationCounts
    answered: bool = True
    """Whether the model ended it with a text, and not with calls up to the limit of its own calls."""


@dataclass(frozen=True)
class Comparison:
    """The same requests answered by both agents."""

    plain: tuple[Turn, ...]
    speculative: tuple[Turn, ...]
    exact: bool
    """Whether the model computes in full precision, so that equal transcripts are promised."""

    @property
    def tools_ran(self) -> bool:
        return any(turn.tool_calls for turn in (*self.plain, *self.speculative))

    @property
    def waited_s(self) -> tuple[float, float]:
        """Seconds that the user waited for the plain and for the speculative agent."""
        return sum(turn.seconds for turn in self.plain), sum(turn.seconds for turn in self.speculative)

    @property
    def saved_share(self) -> float:
        """Share of the waiting for the plain agent that speculation saved; negative if it took longer."""
        plain, speculative = self.waited_s
        return 1 - speculative / plain

    @property
    def counts(self) -> SpeculationCounts:
        return sum((turn.counts for turn in self.speculative), SpeculationCounts())

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The requests that the model, as the plain agent, did not answer."""
        return tuple(turn.request for turn in self.plain if not turn.answered)

    @property
    def different(self) -> tuple[str, ...]:
        """The requests in which the agents said or did different things."""
        turns = zip(self.plain, self.speculative, strict=True)
        return tuple(one.request for one, other in turns if one.transcript != other.transcript)

    def differences(self) -> str:
        """Return a diff of both transcripts; empty if they are equal, as they must be."""
        plain, speculative = (
            "\n".join(f"user {turn.request}\n{turn.transcript}" for turn in turns).splitlines()
            for turns in (self.plain, self.speculative)
        )
        return "\n".join(difflib.unified_diff(plain, speculative, "plain", "speculative", lineterm=""))


@dataclass
class _Side:
    agent: Agent
    view: SideLog
    counts: Callable[[], SpeculationCounts]
    """What speculation has done so far."""
    counted: SpeculationCounts = field(default_factory=SpeculationCounts)
    """Of that, what belongs to earlier requests."""
    turns: list[Turn] = field(default_factory=list)

    def take_counts(self) -> SpeculationCounts:
        """Return what speculation did since the last call."""
        earlier, self.counted = self.counted, self.counts()
        return self.counted - earlier


async def compare(
    runtime: LocalRuntime,
    data: tuple[PersonalData, PersonalData],
    latencies: Latencies,
    requests: Sequence[str],
    view: DemoView,
    *,
    pace: float = 0.0,
    observers: Sequence[SpeculationObserver] = (),
) -> Comparison:
    """Answer ``requests`` by both agents; ``data`` is the plain agent's copy and the other one's.

    ``observers`` receive the events of the second agent's speculation.

    ``pace`` limits the model to that many tokens per second of each request; 0 sets no limit. With a pace the
    engine is idle most of the time, and both agents answer at once. Without one they take turns, so that none
    slows the other down, and alternate in who is first, in case the first warms a cache for the second.
    """
    model = (
        PacedChatAgentRT(
            runtime=runtime,
            max_tokens=MOST_TOKENS,
            tokens_per_second=pace,
            characters_per_token=CHARACTERS_PER_TOKEN,
        )
        if pace
        else ChatAgentRT(runtime=runtime, max_tokens=MOST_TOKENS)
    )
    shown = SpeculationLines(view.side("agentrt"))
    faster = await asyncio.to_thread(speculative, model, [shown, *observers])
    agents = [
        assistant_agent(each, assistant_tools(own, latencies, web=True), prompt=system_prompt(runtime))
        for each, own in ((model, data[0]), (faster, data[1]))
    ]
    sides = [
        _Side(agents[0], view.side("plain"), SpeculationCounts),
        _Side(agents[1], view.side("agentrt"), lambda: SpeculationCounts.of(report_of(faster))),
    ]
    for side in sides:
        await ask_quietly(side.agent, _WARM_UP)
        side.take_counts()
    began = time.perf_counter()
    for number, request in enumerate(requests, 1):
        if number > 1 and time.perf_counter() - began > _LONGEST_S:
            break
        view.request(number, len(requests), request)
        if pace:
            await asyncio.gather(*(_answer(side, request) for side in sides))
        else:
            for side in sides if number % 2 else reversed(sides):
                await _answer(side, request)
        view.answered()
    exact = runtime.config.inference_precision == "f32"
    return Comparison(tuple(sides[0].turns), tuple(sides[1].turns), exact)


async def _answer(side: _Side, request: str) -> None:
    stopwatch = Stopwatch()
    side.view.begin()
    began = time.perf_counter()
    messages = await ask(side.agent, [HumanMessage(request)], side.view, [stopwatch])
    seconds = time.perf_counter() - began
    side.view.answered(seconds)
    side.turns.append(
        Turn(
            request,
            _transcript(messages),
            seconds,
            stopwatch.model_seconds,
            stopwatch.tool_seconds,
            sum(isinstance(message, ToolMessage) for message in messages),
            side.take_counts(),
            is_answered(messages),
        )
    )


def is_answered(messages: Sequence[AnyMessage]) -> bool:
    """Return whether the model has ended a turn of these messages with a text.

    A turn that reaches the limit of model calls ends with one more message, which is not the model's.
    """
    calls = sum(isinstance(message, AIMessage) for message in messages)
    return calls <= MOST_MODEL_CALLS and bool(messages[-1].text.strip())


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
