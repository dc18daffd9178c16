"""The report as it is shown in notebooks and terminals."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from agentrt.reports import AheadReport, PredictorReport, SpeculationReport, ToolReport

MARKUP = '<script>alert("x")</script>'
REPORT = SpeculationReport(
    total=ToolReport(claims=3, misses=1, wasted=2, saved_s=1.25, wasted_s=0.5, refused_submissions=1),
    tools={
        "get_weather": ToolReport(claims=3, misses=1, saved_s=1.25),
        MARKUP: ToolReport(wasted=2, wasted_s=0.5, stopped=MARKUP),
    },
    predictors={"pattern": PredictorReport(started=4, drafts=5, correct=3, input_tokens=120, money=0.25)},
    ahead=AheadReport(kept=1, saved_s=2.0),
    refusals={MARKUP: 1},
)


class Reader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_tables() -> None:
    read = Reader(REPORT._repr_html_())
    assert set(read.tags) == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert read.tags.count("table") == 2
    for text in ("get_weather", "3 of 4", "1.25", "pattern", "3 of 5", "cost: 0.25"):
        assert text in read.texts
    assert "<script" not in REPORT._repr_html_()
    assert read.texts.count(MARKUP) == 2  # the name of the tool, and why it was stopped


def test_an_empty_report_has_no_tables() -> None:
    read = Reader(SpeculationReport()._repr_html_())
    assert "table" not in read.tags
    assert "0 of 0 calls" in read.texts[1]


def test_rich_prints_the_same() -> None:
    console = pytest.importorskip("rich.console")
    output = io.StringIO()
    console.Console(file=output, width=200, color_system=None).print(REPORT)
    shown = output.getvalue()
    for text in ("get_weather", "3 of 4", "pattern", "cost: 0.25", MARKUP):
        assert text in shown
    assert output.getvalue().count("right drafts not claimed") == 1


def test_ipython_prints_the_summary_and_a_representation_is_one_line() -> None:
    shown: list[str] = []
    REPORT._repr_pretty_(SimpleNamespace(text=shown.append), cycle=False)
    assert shown == [str(REPORT)]
    assert re.fullmatch(r"<SpeculationReport: 0 of 0 calls claimed [^\n]*>", repr(SpeculationReport()))
