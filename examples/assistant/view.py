"""What the demo prints while it runs: a live picture in a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
from typing import Protocol

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_LONGEST_RESULT = 90  # characters of a tool's result that are shown


class TurnView(Protocol):
    """Receives the events of one turn. Its methods must neither block nor raise."""

    def token(self, text: str) -> None:
        """The model writes a piece of text."""

    def message(self, message: AnyMessage) -> None:
        """The model has written a message, or a tool has answered."""


class SpeculationView(Protocol):
    """Receives speculations as they start."""

    def speculation(self, tool: str) -> None:
        """A tool was started before the model has called it. Called from any thread."""


class View(TurnView, SpeculationView, Protocol):
    """Receives the events of the whole demo."""

    def begin(self, requests: int) -> None:
        """The demo starts; both agents will answer ``requests`` requests."""

    def request(self, number: int, text: str, agent: str) -> None:
        """A request goes to an agent; ``number`` counts from 1."""

    def turn(self, seconds: float) -> None:
        """The request has been answered."""

    def background(self, task: str, done: int, total: int) -> None:
        """A background task has finished ``done`` of ``total`` steps."""


class PlainView:
    """One line for each event, for pipes, logs and tests."""

    def __init__(self, console: Console) -> None:
        """Print on ``console``."""
        self._console = console
        self._number = 0

    def begin(self, requests: int) -> None:
        """Print nothing: the first request follows at once."""

    def request(self, number: int, text: str, agent: str) -> None:
        """Print the request if it is a new one, and the agent that answers it."""
        if number != self._number:
            self._number = number
            self._print(f"\n> {text}")
        self._print(f"  {agent}")

    def token(self, text: str) -> None:
        """Words are printed when their sentence is complete."""

    def message(self, message: AnyMessage) -> None:
        """Print calls, results and answers."""
        for line in describe(message):
            self.line(line)

    def speculation(self, tool: str) -> None:
        """Print the tool, unless it belongs to the warm-up before the first request."""
        if self._number:
            self.line(f"+ {tool} started speculatively")

    def turn(self, seconds: float) -> None:
        """Print the time."""
        self.line(f"({seconds:.2f} s)")

    def background(self, task: str, done: int, total: int) -> None:
        """Print the end of the task."""
        if done == total:
            self._print(f"  background: {task}, {done} of {total} done")

    def line(self, line: str) -> None:
        """Print a line that belongs to the request."""
        self._print(f"    {line}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


class LiveView:
    """The current request as a live picture; finished requests scroll away above it.

    Enter ``live`` as a context manager to draw it.
    """

    def __init__(self, console: Console) -> None:
        """Draw on ``console``."""
        self._past = PlainView(console)
        self._requests = 0
        self._request = (0, "", "")  # the request's number and text, and the agent
        self._lines: list[str] = []
        self._writing = ""
        self._background: dict[str, tuple[int, int]] = {}
        self.live = Live(get_renderable=self._draw, console=console, refresh_per_second=12, transient=True)

    def begin(self, requests: int) -> None:
        """Show that the model is ready."""
        self._requests = requests

    def request(self, number: int, text: str, agent: str) -> None:
        """Show the request."""
        self._request, self._lines, self._writing = (number, text, agent), [], ""

    def token(self, text: str) -> None:
        """Show the text as it comes."""
        self._writing += text

    def message(self, message: AnyMessage) -> None:
        """Show the call, the result or the answer."""
        self._lines += describe(message)
        self._writing = ""

    def speculation(self, tool: str) -> None:
        """Show the tool."""
        self._lines.append(f"+ {tool} started speculatively")

    def turn(self, seconds: float) -> None:
        """Print the request and its lines above the picture."""
        self._past.request(*self._request)
        for line in self._lines:
            self._past.line(line)
        self._past.turn(seconds)
        self._request, self._lines = (self._request[0], "", ""), []

    def background(self, task: str, done: int, total: int) -> None:
        """Move the task's bar."""
        self._background[task] = (done, total)

    def _draw(self) -> RenderableType:
        if not self._requests:
            return Text("loading the model ...")
        number, request, agent = self._request
        now = Text(request or "waiting for the background tasks", style="bold")
        for line in [*self._lines, f"{self._writing}▌"]:
            now.append(f"\n  {line}", style="not bold")
        bars = Table.grid(padding=(0, 1))
        for task, (done, total) in self._background.items():
            bars.add_row(f"background: {task}", ProgressBar(total, done, width=24), f"{done} of {total}")
        title = f"request {number} of {self._requests}{f', {agent} agent' if agent else ''}"
        return Group(Panel(now, title=title, title_align="left"), bars)


def describe(message: AnyMessage) -> list[str]:
    """Return a message as short lines: calls with arguments, results cut to one line, text unchanged."""
    if isinstance(message, ToolMessage):
        result = message.text
        return [f"= {result if len(result) <= _LONGEST_RESULT else result[:_LONGEST_RESULT] + ' ...'}"]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    lines = []
    for call in calls:
        arguments = (
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call["args"].items()
        )
        lines.append(f"* {call['name']}({', '.join(arguments)})")
    return [*lines, " ".join(message.text.split())] if message.text else lines
