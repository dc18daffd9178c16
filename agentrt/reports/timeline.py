"""The timeline of a run as a picture: where the seconds went."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ..errors import InvalidRequestError
from ..terminal_text import printable

Kind: TypeAlias = Literal["model", "ahead", "tool", "claimed", "wasted", "draft"]

_MEANING: Final[dict[Kind, str]] = {
    "model": "model",
    "ahead": "model, sent ahead",
    "tool": "the agent waits for a tool",
    "claimed": "tool started early, then called",
    "wasted": "started early, not called",
    "draft": "draft",
}
# Of the page, text, faint text, model, waiting, and what started early. Few viewers know CSS variables.
_LIGHT: Final = ("#ffffff", "#1f2328", "#59636e", "#4a7ebb", "#e08a3c", "#2f9e77")
_DARK: Final = ("#0d1117", "#e6edf3", "#9198a1", "#5b8fd0", "#d98236", "#3fae85")
_FIXED: Final = """
& {font:12px system-ui,sans-serif} & .title{font-weight:600} & .grid{stroke-opacity:.25}
& .ahead{fill-opacity:.35} & .wasted{fill-opacity:.15;stroke-dasharray:3 2}
& .link{fill:none;stroke-dasharray:2 2} & circle{stroke-width:1.5}
"""
_COLOURS: Final = """
& .card{fill:%s} & text,& .draft{fill:%s} & .faint,& .wasted{fill:%s} & .grid,& .wasted{stroke:%s}
& .model,& .ahead{fill:%s} & .tool{fill:%s} & .claimed,& circle{fill:%s} & .link{stroke:%s}
& circle{stroke:%s}
"""
_WIDTH, _LEFT, _RIGHT, _LANE, _BAR = 960, 150, 60, 22, 14  # pixels
_TURNS_A_ROW, _MOST_ROWS = 40, 8
_MOST_TOOLS, _MOST_LEVELS, _MOST_CHARACTERS = 8, 3, 20
_LEAST_S: Final = 1e-6  # what is shorter has no axis
_NOT_XML: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Span:
    """What happened from ``start_s`` to ``end_s``, in seconds, to a tool or, without one, to the model.

    ``called_s`` is when the call came that claimed the run, of spans of this kind.
    """

    kind: Kind
    start_s: float
    end_s: float
    tool: str = ""
    note: str = ""
    called_s: float | None = None

    @property
    def shown_to_s(self) -> float:
        """The end of the span, or of the link to its call."""
        return max(self.end_s, self.called_s or 0.0)

    def later(self, by_s: float) -> Span:
        """Return the span ``by_s`` seconds later."""
        called_s = None if self.called_s is None else self.called_s + by_s
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s, called_s=called_s)


@dataclass(frozen=True, slots=True)
class TimedTurn:
    """The spans of one turn, and by how many seconds it would have ended later without speculation."""

    spans: tuple[Span, ...]
    saved_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Panel:
    """One run, which begins at 0."""

    title: str
    spans: tuple[Span, ...]
    turns: int
    saved_s: float

    def covered_s(self, *kinds: Kind) -> float:
        """Return the seconds in which there is a span of these kinds."""
        total = until = 0.0
        for span in sorted(self.spans, key=lambda span: span.start_s):
            if span.kind in kinds:
                total += max(0.0, span.end_s - max(span.start_s, until))
                until = max(until, span.end_s)
        return total

    @property
    def took_s(self) -> float:
        """The seconds until the last answer of the model or a tool."""
        return max((span.end_s for span in self.spans if span.kind != "wasted"), default=0.0)

    def caption(self, *, alone: bool) -> str:
        """Return the title with the totals; ``alone`` says that no plain run is beside it."""
        wasted = [span.end_s - span.start_s for span in self.spans if span.kind == "wasted"]
        texts = [
            f"{self.title}: took {self.took_s:.2f} s".removeprefix(": "),
            f"model {self.covered_s('model', 'ahead'):.2f} s",
            f"waiting for tools {self.covered_s('tool'):.2f} s",
        ]
        if wasted:
            texts.append(f"{len(wasted)} wasted ({sum(wasted):.2f} s)")
        if alone and self.saved_s > 0:
            texts.append(f"plain would have taken {self.took_s + self.saved_s:.2f} s")
        return ", ".join(texts)

    def lanes(self) -> dict[str, list[tuple[int, Span]]]:
        """Return the spans of the model and of each tool, with levels on which they do not overlap."""
        tools = list(dict.fromkeys(span.tool for span in self.spans if span.tool))
        others = {tool: f"{len(tools) - _MOST_TOOLS} other tools" for tool in tools[_MOST_TOOLS:]}
        lanes: dict[str, list[tuple[int, Span]]] = {"": []}
        taken_to: dict[str, list[float]] = {}
        for span in sorted(self.spans, key=lambda span: span.start_s):
            lane = others.get(span.tool, span.tool)
            ends = taken_to.setdefault(lane, [0.0] * (_MOST_LEVELS if span.tool else 1))
            free = (level for level, end in enumerate(ends) if end <= span.start_s + 1e-9)
            level = next(free, len(ends) - 1)
            ends[level] = max(ends[level], span.shown_to_s)
            lanes.setdefault(lane, []).append((level, span))
        return lanes


@dataclass(frozen=True, slots=True)
class Timeline:
    """The model, the tools and the speculation of a run over its seconds, or of several runs.

    Notebooks show it as a picture. The latest 320 turns are drawn, 40 a row.
    """

    panels: tuple[_Panel, ...] = ()

    @classmethod
    def of_turns(cls, turns: Sequence[TimedTurn], title: str = "") -> Timeline:
        """Return the timeline of the latest turns of a run.

        Raises:
            InvalidRequestError: a moment is not a finite number.
        """
        drawn = turns[-_TURNS_A_ROW * _MOST_ROWS :]
        if len(drawn) < len(turns):
            title = f"{title} (the last {len(drawn)} turns of {len(turns)})".lstrip()
        spans = [span for turn in drawn for span in turn.spans]
        if not math.isfinite(sum(abs(span.start_s) + abs(span.shown_to_s) for span in spans)):
            raise InvalidRequestError("turns", "they have times that are no numbers. Record the run again.")
        began = min((span.start_s for span in spans), default=0.0)
        moved = tuple(span.later(-began) for span in spans)
        return cls((_Panel(title, moved, len(drawn), sum(turn.saved_s for turn in drawn)),))

    def above(self, other: Timeline) -> Timeline:
        """Return a timeline that shows this one above ``other``, on one axis."""
        return Timeline(self.panels + other.panels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as an SVG file."""
        Path(path).write_text(self.svg(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Return the picture, which notebooks show."""
        return self.svg()

    def svg(self) -> str:
        """Return the picture as SVG, readable on light and dark pages. No text in it becomes markup."""
        rows = max((math.ceil(panel.turns / _TURNS_A_ROW) for panel in self.panels), default=1) or 1
        spans = [span for panel in self.panels for span in panel.spans]
        longest_s = max((span.shown_to_s for span in spans), default=0.0)
        row_s = longest_s / rows if longest_s > _LEAST_S else 1.0
        captions = [panel.caption(alone=len(self.panels) == 1) for panel in self.panels]
        canvas = _Canvas(row_s)
        laid_out = [(panel.took_s, panel.lanes()) for panel in self.panels]
        for row in range(rows):
            canvas.begin_row(row * row_s)
            for (took_s, lanes), caption in zip(laid_out, captions, strict=True):
                canvas.panel(took_s, lanes, caption if row == 0 else "")
            canvas.end_row()
        canvas.legend({span.kind for span in spans})
        return canvas.document("; ".join(captions) or "an empty run")


def _style() -> str:
    """Return the style sheet, whose rules do not reach the rest of a notebook's page."""
    light, dark = (
        _COLOURS % (card, text, faint, faint, model, wait, early, early, card)
        for card, text, faint, model, wait, early in (_LIGHT, _DARK)
    )
    rules = f"{_FIXED}{light}@media(prefers-color-scheme:dark){{{dark}}}"
    return rules.replace("&", ".agentrt-timeline")


class _Canvas:
    """SVG elements, drawn from top to bottom in rows of ``row_s`` seconds."""

    def __init__(self, row_s: float) -> None:
        self._row_s = row_s
        self._scale = (_WIDTH - _LEFT - _RIGHT) / row_s
        self._from_s = self._top = 0.0
        self._y = 10.0
        self._parts: list[str] = []

    def begin_row(self, from_s: float) -> None:
        self._from_s, self._top = from_s, self._y

    def panel(self, took_s: float, lanes: dict[str, list[tuple[int, Span]]], caption: str) -> None:
        if caption:
            self._text(12, self._y + 13, caption, "title")
            self._y += 24
        model_y = self._y
        links: list[str] = []
        for tool, placed in lanes.items():
            self._text(_LEFT - 10, self._y + _LANE / 2 + 4, _cut(tool or "model"), anchor="end")
            for level, span in _merged(placed, narrow_s=2 / self._scale):
                y = self._y + level * _LANE + (_LANE - _BAR) / 2
                self._span(span, y)
                links += self._link(span, y + _BAR / 2, model_y + _LANE)
            self._y += _LANE * (1 + max((level for level, _ in placed), default=0))
        self._parts += links
        if self._shows(took_s):
            self._text(self._x(took_s) + 6, model_y + _LANE / 2 + 4, f"{took_s:.2f} s", "title")
        self._y += 8

    def end_row(self) -> None:
        """Draw the axis below the row and its grid, behind all else."""
        step = _step(70 / self._scale)
        digits = max(0, -math.floor(math.log10(step)))
        grid = []
        last = math.floor((self._from_s + self._row_s) / step + 1e-9)
        for tick in range(math.ceil(self._from_s / step - 1e-9), last + 1):
            x = self._x(tick * step)
            at = f'x1="{x:.1f}" x2="{x:.1f}" y1="{self._top:.1f}" y2="{self._y:.1f}"'
            grid.append(f'<line class="grid" {at}/>')
            self._text(x, self._y + 12, f"{tick * step:.{digits}f} s", "faint", "middle")
        self._parts = [*grid, *self._parts]
        self._y += 26

    def legend(self, kinds: Iterable[Kind]) -> None:
        """Draw what the colours of ``kinds`` mean."""
        x = float(_LEFT)
        shown = set(kinds)
        for kind, meaning in _MEANING.items():
            if kind in shown:
                x_and_y = (x + 7, self._y - 6) if kind == "draft" else (x, self._y)
                self._parts.append(_mark(kind, *x_and_y, 14) + "/>")
                self._text(x + 20, self._y + 11, meaning)
                x += 40 + 6.2 * len(meaning)
        self._y += 26

    def document(self, description: str) -> str:
        """Return the SVG document."""
        size = f'width="{_WIDTH}" height="{self._y:.0f}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="agentrt-timeline" role="img" '
            f'viewBox="0 0 {_WIDTH} {self._y:.0f}" {size}>\n<title>Timeline of a run</title>'
            f"<desc>{_safe(description)}</desc>\n<style>{_style()}</style>\n"
        )
        return "\n".join([f'{head}<rect class="card" {size} rx="8"/>', *self._parts, "</svg>\n"])

    def _span(self, span: Span, y: float) -> None:
        begins = max(span.start_s, self._from_s)
        ends = min(span.end_s, self._from_s + self._row_s)
        if begins < ends or (span.kind == "draft" and self._shows(begins)):
            lasted = f", {span.end_s - span.start_s:.2f} s" if span.kind != "draft" else ""
            words = (span.tool, span.note or _MEANING[span.kind], f"at {span.start_s:.2f} s{lasted}")
            mark = _mark(span.kind, self._x(begins), y, (ends - begins) * self._scale)
            self._parts.append(f"{mark}><title>{_safe(': '.join(filter(None, words)))}</title></{mark[1:5]}>")

    def _link(self, span: Span, y: float, model_y: float) -> list[str]:
        """Return the line from the end of a claimed run to its call, which the model has made above."""
        if span.called_s is None or not self._shows(span.called_s):
            return []
        x, from_x = self._x(span.called_s), self._x(max(span.end_s, self._from_s))
        line = f'<path class="link" d="M{from_x:.1f} {y:.1f}H{x:.1f}V{model_y:.1f}"/>'
        return [line, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>']

    def _shows(self, seconds: float) -> bool:
        """Whether a moment is in this row, its end included."""
        return 0 <= seconds - self._from_s <= self._row_s * (1 + 1e-9)

    def _x(self, seconds: float) -> float:
        return _LEFT + (seconds - self._from_s) * self._scale

    def _text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        kind = f' class="{style}"' if style else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self._parts.append(f"<text{kind} {place}>{_safe(text)}</text>")


def _mark(kind: Kind, x: float, y: float, width: float) -> str:
    """Return the beginning of the element that stands for a span."""
    if kind == "draft":
        return f'<path class="draft" d="M{x:.1f} {y + 9:.1f}l-4 7h8z"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" rx="2"'


def _merged(placed: Iterable[tuple[int, Span]], narrow_s: float) -> list[tuple[int, Span]]:
    """Return spans with levels, as one where narrow ones of a kind would lie on each other."""
    merged: list[tuple[int, Span]] = []
    last: dict[tuple[int, Kind], int] = {}
    for level, span in placed:
        place = last.get((level, span.kind))
        if place is not None:
            before = merged[place][1]
            narrow = min(span.end_s - span.start_s, before.end_s - before.start_s) < narrow_s
            if narrow and span.start_s - before.end_s < narrow_s / 2:
                merged[place] = level, replace(before, end_s=max(before.end_s, span.end_s), note="several")
                continue
        last[level, span.kind] = len(merged)
        merged.append((level, span))
    return merged


def _step(at_least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not less."""
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= at_least)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _safe(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", printable(text)))
