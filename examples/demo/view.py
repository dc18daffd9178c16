"""What the demo shows while it runs: two panes side by side in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from langchain_core.messages import AnyMessage
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentrt.terminal_text import printable

from ..assistant.view import describe

SideName: TypeAlias = Literal["plain", "agentrt"]
SIDES: tuple[SideName, ...] = get_args(SideName)
_BAR = 40  # columns of the longer bar


class SideLog:
    """What one agent does in a request: lines with the seconds since it began.

    Speculations come from any thread.
    """

    def __init__(self) -> None:
        """Wait for the first request; what comes before it is not shown."""
        self._began: float | None = None
        self.seconds: float | None = None
        self.lines: list[str] = []
        self.writing = ""
        self.waited = 0.0

    def begin(self) -> None:
        self._began, self.seconds, self.lines, self.writing = time.perf_counter(), None, [], ""

    def answered(self, seconds: float) -> None:
        self.seconds, self.writing = seconds, ""
        self.waited += seconds

    def token(self, text: str) -> None:
        self.writing += printable(text)

    def message(self, message: AnyMessage) -> None:
        self.writing = ""
        for line in describe(message):
            self._add(line)

    def speculation(self, tool: str) -> None:
        self._add(f"+ {tool} starts, before the model has called it")

    def ahead(self) -> None:
        self._add("+ next model request sent ahead")

    @property
    def elapsed(self) -> float:
        """Seconds that the request takes so far, or took."""
        if self.seconds is not None:
            return self.seconds
        return 0.0 if self._began is None else time.perf_counter() - self._began

    def _add(self, line: str) -> None:
        if self._began is not None:
            self.lines.append(f"{self.elapsed:5.2f}  {line}")


class DemoView(ABC):
    """Receives the events of the demo."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._logs: Mapping[SideName, SideLog] = {name: SideLog() for name in SIDES}

    def side(self, name: SideName) -> SideLog:
        """Return the view of one agent."""
        return self._logs[name]

    @abstractmethod
    def request(self, number: int, of: int, text: str) -> None:
        """Both agents are about to get this request; ``number`` counts from 1."""

    @abstractmethod
    def answered(self) -> None:
        """Both agents have answered it."""

    @abstractmethod
    def background(self, policy: str, done: int, of: int) -> None:
        """With this scheduling policy ``done`` of the user's questions are answered beside the digests."""


class PlainView(DemoView):
    """Lines for pipes, logs and tests: each request with what both agents did, one after the other."""

    def request(self, number: int, of: int, text: str) -> None:
        self._print(f"\n> {printable(text)}")

    def answered(self) -> None:
        for name, log in self._logs.items():
            self._print(f"  {name}: {log.elapsed:.2f} s")
            for line in log.lines:
                self._print(f"    {line}")

    def background(self, policy: str, done: int, of: int) -> None:
        if done == of:
            self._print(f"\nbeside background digests, {policy}: {of} questions answered")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


class LiveView(DemoView):
    """Two panes, one for each agent, and how long the user has waited for each so far.

    Enter ``live`` as a context manager to draw it. Answered requests scroll away above it, a line each.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._title = ""
        self._request = ""
        self._background: dict[str, tuple[int, int]] = {}
        self.live = Live(get_renderable=self._draw, console=console, refresh_per_second=12, transient=True)

    def request(self, number: int, of: int, text: str) -> None:
        self._title, self._request = f"request {number} of {of}", printable(text)

    def answered(self) -> None:
        plain, ours = (self._logs[name].elapsed for name in SIDES)
        line = Text(f"{self._request[:52]:<52} plain {plain:5.2f} s   agentrt {ours:5.2f} s  ")
        line.append(f"{100 * (ours - plain) / plain:+4.0f} %", style="green" if ours < plain else "red")
        self._console.print(line, soft_wrap=True)

    def background(self, policy: str, done: int, of: int) -> None:
        self._background[policy] = (done, of)

    def _draw(self) -> RenderableType:
        if self._background:
            return self._draw_background()
        if not self._request:
            return Text("loading the model ...")
        panes = Table.grid(expand=True)
        panes.add_column(ratio=1)
        panes.add_column(ratio=1)
        panes.add_row(*(self._pane(name) for name in SIDES))
        request = Panel(Text(self._request, style="bold"), title=self._title, title_align="left")
        return Group(request, panes, self._bars())

    def _pane(self, name: SideName) -> RenderableType:
        log = self._logs[name]
        body = Text(no_wrap=False)
        for line in log.lines:
            body.append(f"{line}\n", style="cyan" if "  + " in line else "")
        if log.seconds is None:
            body.append(f"       {log.writing}▌")
        state = "" if log.seconds is None else ", answered"
        style = "dim" if log.seconds is None else "green"
        title = f"{name}  {log.elapsed:.2f} s{state}"
        return Panel(body, title=title, title_align="left", border_style=style, height=14)

    def _bars(self) -> RenderableType:
        """Return how long the user has waited for each agent, the request that is running included."""
        waited = {
            name: log.waited + (log.elapsed if log.seconds is None else 0.0)
            for name, log in self._logs.items()
        }
        longest = max(*waited.values(), 1e-9)
        bars = Table.grid(padding=(0, 1))
        for name, seconds in waited.items():
            bar = ProgressBar(longest, seconds, width=_BAR)
            bars.add_row(f"waited for {name}", bar, f"{seconds:.1f} s")
        return bars

    def _draw_background(self) -> RenderableType:
        bars = Table.grid(padding=(0, 1))
        for policy, (done, of) in self._background.items():
            bars.add_row(f"{policy}:", ProgressBar(of, done, width=_BAR), f"{done} of {of} questions")
        return Group(Text("the user asks while digests are written in the background", style="bold"), bars)
