"""What the demo shows while it runs: two panes in a terminal, or the log of what both agents do."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from langchain_core.messages import AnyMessage, ToolMessage
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentrt.terminal_text import printable

from ..assistant.view import describe, describe_calls

SideName: TypeAlias = Literal["plain", "agentrt"]
SIDES: tuple[SideName, ...] = get_args(SideName)
_TITLES: Final[Mapping[SideName, str]] = {"plain": "without agentrt", "agentrt": "with agentrt"}
_WIDE: Final = 80  # columns from which the panes are side by side
_MOST_ROWS: Final = 32  # of the panes: drawing takes time from the agents

EventKind: TypeAlias = Literal["token", "call", "result", "answer", "speculation", "ahead"]


class Event(NamedTuple):
    """What an agent did, so many seconds after its request began; the text is a line, but for a token."""

    seconds: float
    kind: EventKind
    text: str


@dataclass
class Recording:
    """What one agent does in one request."""

    began: float
    seconds: float | None = None
    """What the request took, once it is answered."""
    events: list[Event] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds that the request takes so far, or took."""
        return time.perf_counter() - self.began if self.seconds is None else self.seconds


class SideLog:
    """What one agent does, from the first request on. Speculations come from any thread."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []

    def begin(self) -> None:
        self.recordings.append(Recording(time.perf_counter()))

    def answered(self, seconds: float) -> None:
        self.recordings[-1].seconds = seconds

    def token(self, text: str) -> None:
        self._add("token", printable(text))

    def message(self, message: AnyMessage) -> None:
        calls, said = len(describe_calls(message)), describe(message)
        for call in said[:calls]:
            self._add("call", call)
        for line in said[calls:]:
            self._add("result" if isinstance(message, ToolMessage) else "answer", line)

    def speculation(self, tool: str) -> None:
        self._add("speculation", f"+ {tool} starts, before the model has called it")

    def ahead(self) -> None:
        self._add("ahead", "+ next model request sent ahead")

    def _add(self, kind: EventKind, text: str) -> None:
        if self.recordings:
            recording = self.recordings[-1]
            recording.events.append(Event(recording.elapsed, kind, text))


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
    """The log: each request with what both agents did, one after the other, with seconds since it began."""

    def request(self, number: int, of: int, text: str) -> None:
        self._print(f"\n> {printable(text)}")

    def answered(self) -> None:
        for name, log in self._logs.items():
            recording = log.recordings[-1]
            self._print(f"  {name}: {recording.elapsed:.2f} s")
            for event in recording.events:
                if event.kind != "token":
                    self._print(f"    {event.seconds:5.2f}  {event.text}")

    def background(self, policy: str, done: int, of: int) -> None:
        if done == of:
            self._print(f"\nbeside background digests, {policy}: {of} questions answered")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


class LiveView(DemoView):
    """Two panes, one for each agent: each question, what the agent does, and the answer as it is written.

    Agents that do not work ``together`` are shown together all the same: each question is replayed, at the
    pace of its events, when both have answered it and the question before it has been shown.
    """

    def __init__(self, console: Console, *, together: bool) -> None:
        super().__init__(console)
        self._together = together
        self._requests: list[str] = []
        self._replays: list[float] = []
        """When the replay of each answered request begins."""
        self._replayed = 0.0
        """When the last replay ends."""
        self._status = "loading the model ..."
        self._live = Live(get_renderable=self.draw, console=console, refresh_per_second=12)

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw the panes during the block and until the last replay ends; they stay on the terminal."""
        with self._live:
            yield
            time.sleep(max(0.0, self._replayed - time.perf_counter()))
            self._status = ""

    def request(self, number: int, of: int, text: str) -> None:
        self._requests.append(printable(text))
        self._status = f"question {number} of {of}"
        if not self._together:
            self._status += (
                " is being measured. They answer one after the other, since they share the engine; the panes "
                "replay both at the pace they had."
            )

    def answered(self) -> None:
        if not self._together:
            self._replays.append(max(self._replayed, time.perf_counter()))
            self._replayed = self._replays[-1] + max(
                log.recordings[-1].elapsed for log in self._logs.values()
            )

    def background(self, policy: str, done: int, of: int) -> None:
        self._status = f"now measuring beside background work, {policy}: {done} of {of} questions"

    def draw(self) -> RenderableType:
        """Return the panes as they are now, and below them what is going on."""
        if not self._requests:
            return Text(self._status)
        width, height = self._console.size
        wide, rows = width >= _WIDE, max(6, min(height - 4, _MOST_ROWS))
        size = (width // 2, rows) if wide else (width, rows // 2)
        panes = Table.grid(expand=True)
        if wide:
            panes.add_column(ratio=1)
            panes.add_column(ratio=1)
            panes.add_row(*(self._pane(name, *size) for name in SIDES))
        else:
            for name in SIDES:
                panes.add_row(self._pane(name, *size))
        return Group(panes, Text(self._status, style="dim"))

    def _pane(self, name: SideName, width: int, rows: int) -> RenderableType:
        """Return the latest lines of one agent, and how long the user has waited for it so far."""
        now, lines, waited, answering = time.perf_counter(), list[Text](), 0.0, False
        recordings = self._logs[name].recordings
        begins = [each.began for each in recordings] if self._together else self._replays
        for request, recording, began in reversed([*zip(self._requests, recordings, begins, strict=False)]):
            if began > now:
                continue  # its replay is to come
            elapsed = min(now - began, recording.elapsed)
            ended = recording.seconds is not None and elapsed == recording.elapsed
            waited, answering = waited + elapsed, answering or not ended
            if len(lines) < rows:
                told = _told(request, recording, None if ended else elapsed)
                lines[:0] = told.wrap(self._console, width - 4)
        return Panel(
            Text("\n").join(lines[2 - rows :]),
            title=f"{_TITLES[name]}  {waited:.1f} s",
            title_align="left",
            border_style="dim" if answering else "green",
            height=rows,
        )


def _told(request: str, recording: Recording, until: float | None) -> Text:
    """Return what happened until so many seconds after the request, or all of it."""
    told, writing = Text.assemble(("You: " + request, "bold")), ""
    for event in list(recording.events):
        if until is not None and event.seconds > until:
            break
        match event.kind:
            case "token":
                writing += event.text
                continue
            case "call":
                told.append(f"\n  calls {event.text[2:]}", "dim")
            case "result":
                told.append("\n  has its result", "dim")
            case "speculation":
                told.append(f"\n  {event.text[2:]}", "cyan")
                continue  # the model writes on meanwhile
            case "ahead":
                continue
            case "answer":
                told.append(f"\n{event.text}")
        writing = ""
    return told if until is None else told.append(f"\n{writing}▌")
