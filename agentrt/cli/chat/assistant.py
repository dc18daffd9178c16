"""The personal assistant of ``examples/``, opened for a chat."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .approval import WhyNot, ask_before_writes
from .first_model import NANO
from .known_news import KnownNews
from .served import open_served

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agentrt.examples.assistant.sources import Mirror
    from agentrt.examples.chat.away import Away
    from agentrt.examples.chat.served import ServedChat
    from agentrt.examples.personal_assistant import Agent
    from agentrt.runtime import EmbeddingModel, LocalRuntime

    from .opener import ModelOpener


@dataclass(frozen=True)
class Assistant:
    """An agent, what it works with, and the event loop of its requests."""

    agent: Agent
    tools: Sequence[BaseTool]
    runtime: LocalRuntime | ServedChat
    runner: asyncio.Runner
    examples: Sequence[str]
    """Questions that its data can answer."""
    asks_before_writes: bool
    """Whether tools that change data run only if the user agrees."""
    told: Sequence[str] = ()
    """What the user is told at the start: what it reads of their data, and where it keeps contexts."""
    away: Away | None = None
    """What tells of news in the user's own data."""


@contextlib.contextmanager
def open_assistant(
    model: str,
    runner: asyncio.Runner,
    opener: ModelOpener,
    *,
    data: Sequence[Path] | None,
    max_tokens: int | None,
    weather_delay: float,
    why_not: WhyNot | None,
    mirrors: Sequence[Mirror] = (),
    embedding: EmbeddingModel | None = None,
) -> Iterator[Assistant]:
    """Open the assistant on what is in ``data``, or on sample data that is deleted at the end.

    The model is opened by ``opener``, unless the running ``agentrt serve`` of this user has it.

    Its requests are sent on the event loop of ``runner``. ``why_not`` is asked about each call that changes
    data; None lets them run. ``mirrors`` are of some folders in ``data``. With ``embedding`` texts are
    searched by meaning, too.

    Raises:
        ConfigurationError: nothing in ``data`` can be read, or the delay is out of range.
        ModelError: the model cannot be opened.
    """
    from agentrt.examples.assistant.data import PersonalData, workspace
    from agentrt.examples.assistant.requests import requests_about
    from agentrt.examples.assistant.sample_data import write_sample_data
    from agentrt.examples.chat.away import MOST_TOKENS, Away
    from agentrt.examples.chat.steered import chat_model, steered_agent

    with contextlib.ExitStack() as stack:
        paths = data
        if not paths:
            paths = [stack.enter_context(workspace()) / "sample"]
            write_sample_data(paths[0], dt.date.today())
        opened = stack.enter_context(
            contextlib.closing(PersonalData.open(*paths, mirrors=mirrors, embedding=embedding))
        )
        told = [opened.description()] if data else []
        runtime: LocalRuntime | ServedChat | None = runner.run(open_served(model))
        if runtime is None:
            runtime = stack.enter_context(opener.open(model))
            told += opener.told
        # The web is imitated, as the sample data is.
        agent, tools = steered_agent(
            runtime,
            opened,
            [] if why_not is None else [ask_before_writes(why_not)],
            max_tokens=max_tokens,
            weather_delay=weather_delay,
            web=not data,
        )
        away = None
        if data:
            describes = None if runtime.model_id == NANO else chat_model(runtime, MOST_TOKENS)
            away = Away(opened, KnownNews(data), describes)
        yield Assistant(
            agent=agent,
            tools=tools,
            runtime=runtime,
            runner=runner,
            examples=requests_about(opened),
            asks_before_writes=why_not is not None,
            told=told,
            away=away,
        )
