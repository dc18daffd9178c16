"""``agentrt chat``: chat with the personal assistant."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PromptTooLongError, RequestError
from ..extras import require_extra
from .assistant_options import AssistantModel, WeatherDelay
from .opening_bar import opening_bar

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage
    from rich.console import Console

    from agentrt.examples.personal_assistant import Agent

# A quarter of the model's context may be history; the rest is for instructions, tools and the new turn. Every
# tokenizer has at least about two characters per token.
_HISTORY_SHARE = 1 / 4
_CHARACTERS_PER_TOKEN = 2


def chat(
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder with notes.db, calendar.ics, mail.mbox and files/. New notes and events are "
            "written to it. Without it, sample data is used and deleted at the end.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    model: AssistantModel = "nano",
    weather_delay: WeatherDelay = 0.2,
) -> None:
    """Chat with the personal assistant. Ctrl-C stops an answer, Ctrl-D exits."""
    require_extra("demo")
    import httpx
    from rich.console import Console

    from agentrt.adapters.langchain import ChatAgentRT, report_of
    from agentrt.examples.assistant.data import PersonalData, workspace
    from agentrt.examples.assistant.requests import requests_about
    from agentrt.examples.assistant.sample_data import write_sample_data
    from agentrt.examples.assistant.weather import WeatherService
    from agentrt.examples.personal_assistant import (
        MOST_TOKENS,
        assistant_agent,
        assistant_tools,
        open_runtime,
        speculative,
    )

    with contextlib.suppress(ImportError):  # gives input() arrow keys and a history; Windows has them anyway
        import readline  # noqa: F401
    with contextlib.ExitStack() as stack:
        if data is None:
            data = stack.enter_context(workspace()) / "sample"
            write_sample_data(data, dt.date.today())
        opened = stack.enter_context(contextlib.closing(PersonalData.open(data)))
        weather = stack.enter_context(WeatherService(weather_delay))
        with opening_bar() as show:
            runtime = stack.enter_context(open_runtime(model, show))
        runner = stack.enter_context(asyncio.Runner())
        client = httpx.AsyncClient(base_url=weather.url)
        stack.callback(lambda: runner.run(client.aclose()))
        model_with_drafts = speculative(ChatAgentRT(runtime=runtime, max_tokens=MOST_TOKENS))
        agent = assistant_agent(model_with_drafts, assistant_tools(opened, client))
        characters = int(runtime.context_length * _HISTORY_SHARE * _CHARACTERS_PER_TOKEN)
        console = Console(highlight=False)
        console.print("Ask about notes, calendar, mail, files or the weather, such as:")
        for request in requests_about(opened)[1:]:
            console.print(f"  {request}", markup=False, soft_wrap=True)
        console.print("Ctrl-C stops an answer, Ctrl-D exits.")
        conversation = _Conversation(agent, runner, console, characters)
        conversation.run(lambda: report_of(model_with_drafts).total.claims)


class _Conversation:
    def __init__(self, agent: Agent, runner: asyncio.Runner, console: Console, characters: int) -> None:
        self._agent = agent
        self._runner = runner
        self._console = console
        self._characters = characters
        self._turns: list[list[AnyMessage]] = []

    def run(self, count_claims: Callable[[], int]) -> None:
        """Answer line by line until the input ends.

        ``count_claims`` returns the number of claimed speculations so far.
        """
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        while True:
            # An interrupt may come at any time, also a second one while an answer is being stopped.
            try:
                self._console.print()
                line = _read_line()
                if line:
                    self._take_turn(line, count_claims)
            except EOFError:
                return
            except KeyboardInterrupt:
                continue

    def _take_turn(self, line: str, count_claims: Callable[[], int]) -> None:
        started, claims_before = time.perf_counter(), count_claims()
        self._answer(line)
        seconds = time.perf_counter() - started
        claimed = count_claims() - claims_before
        note = f", {claimed} tool call{'s' * (claimed > 1)} predicted" if claimed else ""
        self._console.print(f"({seconds:.2f} s{note})", style="dim")

    def _answer(self, line: str) -> None:
        from langchain_core.messages import HumanMessage

        from agentrt.examples.personal_assistant import ask

        question = HumanMessage(line)
        try:
            # The runner turns Ctrl-C into a cancellation of the turn, which frees what it holds.
            answer = self._runner.run(ask(self._agent, [*self._recent(), question], _ChatView(self._console)))
        except KeyboardInterrupt:
            self._console.print("\n(stopped)")
        except PromptTooLongError as error:
            forgotten = " The conversation so far has been dropped." if self._turns else ""
            self._turns.clear()
            self._console.print(f"\n{error}{forgotten}", markup=False)
        except RequestError as error:
            self._console.print(f"\n{error}", markup=False)
        else:
            self._turns.append([question, *answer])

    def _recent(self) -> list[AnyMessage]:
        """Return the latest whole turns that fit into the history's share of the context."""
        kept: list[AnyMessage] = []
        room = self._characters
        for turn in reversed(self._turns):
            room -= sum(len(message.model_dump_json(include={"content", "tool_calls"})) for message in turn)
            if room < 0:
                break
            kept = [*turn, *kept]
        return kept


def _read_line() -> str:
    """Read a line; bytes that are no UTF-8 become replacement characters.

    Raises:
        EOFError: the input has ended.
    """
    # Lines from a terminal are read by another way, which escapes such bytes.
    return input("> ").strip().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _ChatView:
    """Prints text while it is generated, and tool calls when they are made."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._streamed = False

    def token(self, text: str) -> None:
        self._console.print(text, end="", markup=False, soft_wrap=True)
        self._streamed = self._streamed or bool(text)

    def message(self, message: AnyMessage) -> None:
        from agentrt.examples.assistant.view import describe

        if self._streamed:
            self._console.print()
        for line in describe(message):
            if not self._streamed or line != " ".join(message.text.split()):
                self._console.print(f"  {line}", markup=False, style="dim", soft_wrap=True)
        self._streamed = False
