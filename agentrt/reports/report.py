"""The report on speculation, per turn, tool and predictor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict

from .timeline import Span, TimedTurn, Timeline

_TOOL_COLUMNS: Final = (
    *("tool", "calls claimed", "saved s", "wasted runs", "wasted s", "right drafts not claimed"),
    *("more possible s", "not run any more"),
)
_PREDICTOR_COLUMNS: Final = ("predictor", "drafts right", "turns started", "tokens", "failures")


class _Report(BaseModel):
    """A report, which does not change."""

    model_config = ConfigDict(frozen=True)


class CallReport(_Report):
    """One call of a speculable tool; times in seconds, see :class:`~agentrt.reports.events.CallClaimed`.

    ``could_save_s`` is what Eq. 1 of SpecTools gives for a call that was drafted and not run speculatively,
    as all are in shadow mode. ``called_s`` is when the call reached the tool, in seconds since the first
    event, and ``run`` the number of the speculative run that it claimed.
    """

    tool: str
    hit: bool
    tool_s: float
    waited_s: float
    saved_s: float
    draft_s: float | None = None
    could_save_s: float = 0.0
    reason: str = ""
    called_s: float = 0.0
    run: int = 0


class RunReport(_Report):
    """One speculative run of a tool that has ended.

    ``started_s`` is in seconds since the first event, and the tool ran ``ran_s``.
    """

    run: int
    tool: str
    started_s: float
    ran_s: float
    claimed: bool
    reason: str = ""


class TurnReport(_Report):
    """One model request: its time in seconds (G), its drafts, and the calls in its answer.

    ``started_s``, when it was sent, and ``drafted_s``, when its first drafts came, are in seconds since the
    first event. ``wasted_s`` is how long the model worked on it if it was sent ahead in vain.
    """

    turn: int
    started_s: float = 0.0
    generation_s: float | None = None
    drafts: int = 0
    first_draft_s: float | None = None
    drafted_s: tuple[float, ...] = ()
    tools: tuple[str, ...] = ()
    calls: tuple[CallReport, ...] = ()
    runs: tuple[RunReport, ...] = ()
    wasted: int = 0
    wasted_s: float = 0.0
    ahead_s: float = 0.0
    """Seconds of the model's time by which the request had been sent ahead."""
    problems: tuple[str, ...] = ()

    @property
    def saved_s(self) -> float:
        """Seconds of tool time that the agent did not wait; of calls made at once, each counts."""
        return sum(call.saved_s for call in self.calls)


class ToolReport(_Report):
    """Totals of one tool, or of all. Seconds and the cost of wasted runs are sums.

    ``could_save_s`` is what running all drafted calls could have saved in addition. ``unclaimed`` counts the
    right drafts whose speculation was not claimed; ``unseen`` those of them whose call did not reach the tool
    either, so that they are no misses. ``stopped`` says why the tool is not run speculatively any more.
    ``disclosures`` counts the wasted runs that passed new values to a tool declared ``discloses``.
    ``refused_submissions`` counts the results and predicted calls that an engine did not take.
    """

    claims: int = 0
    misses: int = 0
    unclaimed: int = 0
    unseen: int = 0
    wasted: int = 0
    saved_s: float = 0.0
    could_save_s: float = 0.0
    wasted_s: float = 0.0
    wasted_cost: float = 0.0
    disclosures: int = 0
    refused_submissions: int = 0
    stopped: str = ""

    @property
    def calls(self) -> int:
        """The calls that the model made, as far as they are known."""
        return self.claims + self.misses + self.unseen

    @property
    def claim_rate(self) -> float:
        """The share of calls that claimed a speculation (SpecTools' alpha); 0 if there were none."""
        return self.claims / self.calls if self.calls else 0.0


class PredictorReport(_Report):
    """Totals of one predictor, or of all.

    ``started`` and ``skipped`` count turns. ``drafts`` and ``correct`` count the different calls of
    speculable tools that it drafted in answered turns, run or not, and how many of them the model made.
    ``invalid`` counts the drafts that are no call of a speculable tool.
    """

    started: int = 0
    skipped: int = 0
    drafts: int = 0
    correct: int = 0
    invalid: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0

    @property
    def precision(self) -> float:
        """The share of drafts that were right; 0 if there were none."""
        return self.correct / self.drafts if self.drafts else 0.0


class AheadReport(_Report):
    """Totals of the model requests sent ahead. Seconds are sums."""

    kept: int = 0
    wasted: int = 0
    saved_s: float = 0.0
    wasted_s: float = 0.0


class SpeculationReport(_Report):
    """The report so far. ``turns`` holds the latest ones only; the totals cover all.

    ``refusals`` has the reasons for which an engine's tool cache did not take submitted results, with how
    many results each: see :class:`~agentrt.reports.events.SubmissionRefused`.
    """

    turns: tuple[TurnReport, ...] = ()
    tools: dict[str, ToolReport] = {}
    total: ToolReport = ToolReport()
    predictors: dict[str, PredictorReport] = {}
    ahead: AheadReport = AheadReport()
    refusals: dict[str, int] = {}

    @property
    def cost(self) -> float:
        """The cost of drafts and wasted runs, in the currency of their prices."""
        return self.total.wasted_cost + sum(each.money for each in self.predictors.values())

    def timeline(self, title: str = "") -> Timeline:
        """Return the timeline of the turns in the report; its ``_repr_html_`` is a picture in notebooks.

        It shows the speculable tools. Other tools are gaps in it; those of a LangChain run are in the
        timeline of its :class:`~agentrt.reports.recording.Recording`.
        """
        return Timeline.of_turns([_timed(turn) for turn in self.turns], title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON, which ``agentrt timeline`` draws."""
        Path(path).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        """Return the first line of the summary."""
        return f"<{type(self).__name__}: {self._summary()[0]}>"

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        lines = [
            f"  {name}: {each.claims} of {each.calls} calls claimed, "
            f"{each.saved_s:.2f} s saved, {each.wasted} wasted"
            + (f", {each.disclosures} of them disclosures" if each.disclosures else "")
            + (f", {each.unclaimed} right drafts not claimed" if each.unclaimed else "")
            + (f", {each.could_save_s:.2f} s more possible" if each.could_save_s else "")
            + (f"; not run speculatively any more: {each.stopped}" if each.stopped else "")
            for name, each in sorted(self.tools.items())
        ]
        lines += [
            f"  {name}: {each.correct} of {each.drafts} drafts right, started in {each.started} turns of "
            f"{each.started + each.skipped}, {each.input_tokens + each.output_tokens} tokens"
            + (f", {each.invalid} invalid drafts" if each.invalid else "")
            + (f", {each.failures} failures" if each.failures else "")
            for name, each in sorted(self.predictors.items())
        ]
        return "\n".join([*self._summary(), *lines, *self._notes()])

    def _repr_html_(self) -> str:
        """Return the summary as HTML, which notebooks show."""
        return _html_of(self._summary(), self._tables(), self._notes())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the summary in IPython."""
        printer.text(str(self))

    def __rich__(self) -> Any:
        """Return the summary for :func:`rich.print`."""
        return _rich_of(self._summary(), self._tables(), self._notes())

    def _summary(self) -> list[str]:
        """Return lines about all tools together."""
        total = self.total
        texts = [
            f"{total.claims} of {total.calls} calls claimed a speculation, saving "
            f"{total.saved_s:.2f} s; {total.wasted} speculations of {total.wasted_s:.2f} s were wasted"
            + (f", {total.unclaimed} of right drafts" if total.unclaimed else "")
            + (f", {total.disclosures} disclosures" if total.disclosures else "")
        ]
        if total.could_save_s:
            texts.append(f"running all drafts could have saved {total.could_save_s:.2f} s more")
        return texts

    def _notes(self) -> list[str]:
        """Return lines about requests sent ahead, refused results and cost, as far as there are any."""
        texts = []
        if self.ahead.kept or self.ahead.wasted:
            texts.append(
                f"{self.ahead.kept} model requests sent ahead were kept, saving "
                f"{self.ahead.saved_s:.2f} s, and {self.ahead.wasted} were wasted"
            )
        if self.refusals:
            reasons = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.refusals.items()))
            refused = self.total.refused_submissions
            texts.append(f"{refused} results refused by the engine's tool cache: {reasons}")
        if self.cost:
            texts.append(f"cost: {self.cost:.6g}")
        return texts

    def _tables(self) -> list[_Table]:
        """Return a table of the tools and one of the predictors; none if there are none."""
        tools = [
            (
                name,
                f"{each.claims} of {each.calls}",
                f"{each.saved_s:.2f}",
                str(each.wasted),
                f"{each.wasted_s:.2f}",
                str(each.unclaimed),
                f"{each.could_save_s:.2f}",
                each.stopped,
            )
            for name, each in sorted(self.tools.items())
        ]
        predictors = [
            (
                name,
                f"{each.correct} of {each.drafts}",
                f"{each.started} of {each.started + each.skipped}",
                str(each.input_tokens + each.output_tokens),
                str(each.failures),
            )
            for name, each in sorted(self.predictors.items())
        ]
        tables: list[_Table] = [(_TOOL_COLUMNS, tools), (_PREDICTOR_COLUMNS, predictors)]
        return [table for table in tables if table[1]]


def _timed(turn: TurnReport) -> TimedTurn:
    """Return what a timeline shows of a turn."""
    began, sent_ahead_s = turn.started_s, min(turn.ahead_s, turn.generation_s or 0.0)
    spans = [Span("draft", at_s, at_s) for at_s in turn.drafted_s]
    if sent_ahead_s:
        spans.append(Span("ahead", began, began + sent_ahead_s))
    if turn.generation_s is not None:
        calls = "calls " + ", ".join(turn.tools) if turn.tools else "answer"
        spans.append(Span("model", began + sent_ahead_s, began + turn.generation_s, note=calls))
    if turn.wasted_s:
        spans.append(Span("wasted", began, began + turn.wasted_s, note="sent ahead, not needed"))
    called_s = {call.run: call.called_s for call in turn.calls if call.hit}
    for run in turn.runs:
        ended_s = run.started_s + run.ran_s
        if run.claimed and run.run in called_s:
            until_s = min(ended_s, called_s[run.run])
            spans.append(Span("claimed", run.started_s, until_s, run.tool, called_s=called_s[run.run]))
        else:
            note = f"not called, {run.reason}"
            spans.append(Span("wasted", run.started_s, ended_s, run.tool, note))
    spans += [
        Span("tool", call.called_s, call.called_s + call.waited_s, call.tool, call.reason)
        for call in turn.calls
    ]
    # As if the calls of the turn were made at one time. Of calls one after the other more would be saved.
    plain_s = max((call.called_s + call.tool_s for call in turn.calls), default=0.0)
    waited_s = max((call.called_s + call.waited_s for call in turn.calls), default=0.0)
    return TimedTurn(tuple(spans), max(0.0, plain_s - waited_s) + turn.ahead_s)


_Table: TypeAlias = tuple[Sequence[str], Sequence[tuple[str, ...]]]
"""Columns, and rows of text under them: first a name, then numbers and remarks."""


def _html_of(before: Sequence[str], tables: Sequence[_Table], after: Sequence[str]) -> str:
    """Return HTML of tables with paragraphs around them. No text in it becomes markup."""

    def paragraphs(texts: Sequence[str]) -> list[str]:
        return [f"<p>{escape(text)}</p>" for text in texts]

    return "\n".join(
        ["<div>", *paragraphs(before), *map(_html_of_table, tables), *paragraphs(after), "</div>"]
    )


def _html_of_table(table: _Table) -> str:
    columns, cells = table
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in cells]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _rich_of(before: Sequence[str], tables: Sequence[_Table], after: Sequence[str]) -> Any:
    """Return the same for :mod:`rich`, which is installed where this is called."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = []
    for columns, rows in tables:
        drawn = RichTable()
        for number, column in enumerate(columns):
            drawn.add_column(Text(column), justify="right" if number else "left")
        for row in rows:
            drawn.add_row(*map(Text, row))
        shown.append(drawn)
    return Group(*map(Text, before), *shown, *map(Text, after))
