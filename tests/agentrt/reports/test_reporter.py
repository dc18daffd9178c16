"""The report adds up what happened, stays bounded, and is shown in notebooks and terminals."""

from __future__ import annotations

import io
import re
import threading
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from agentrt.drafts import DraftCost
from agentrt.reports import AheadReport, PredictorReport, SpeculationReport, ToolReport
from agentrt.reports import events as ev
from agentrt.reports.reporter import Reporter
from agentrt.tools.claims import TurnRecorder
from agentrt.tools.speculation import Draft, Speculation


def noted(*events: ev.SpeculationEvent) -> SpeculationReport:
    """Return the report of these events of the first turn."""
    reporter = Reporter(turns_kept=10)
    reporter.next_turn()
    for event in events:
        reporter.note(event)
    return reporter.report()


def test_an_empty_report() -> None:
    assert Reporter(turns_kept=10).report() == SpeculationReport()
    assert ToolReport().claim_rate == 0.0


def test_the_report_of_a_turn() -> None:
    report = noted(
        ev.DraftArrived(1, "p", "look", 0.25),
        ev.DraftArrived(1, "p", "other", 0.5),
        ev.DraftRefused(1, "p", "other", "not speculable"),
        ev.PredictorFailed(1, "q", "down"),
        ev.TurnAnswered(1, 1.0, ("look", "save")),
        ev.CallClaimed(1, "look", tool_s=3.0, waited_s=2.0, draft_s=0.25),
        ev.CallMissed(1, "look", tool_s=4.0, reason="not predicted"),
        ev.SpeculationWasted(1, "look", ran_s=0.5, reason="loser", cost=0.25),
    )
    (turn,) = report.turns
    assert (turn.turn, turn.generation_s, turn.drafts, turn.first_draft_s) == (1, 1.0, 2, 0.25)
    assert turn.tools == ("look", "save")
    assert [(c.hit, c.tool_s, c.waited_s, c.saved_s, c.draft_s) for c in turn.calls] == [
        (True, 3.0, 2.0, 1.0, 0.25),
        (False, 4.0, 4.0, 0.0, None),
    ]
    assert (turn.saved_s, turn.wasted) == (1.0, 1)
    assert turn.problems == ("p drafted other: not speculable", "q failed: down")
    expected = ToolReport(claims=1, misses=1, wasted=1, saved_s=1.0, wasted_s=0.5, wasted_cost=0.25)
    assert report.tools == {"look": expected}
    assert report.total == expected
    assert SpeculationReport.model_validate_json(report.model_dump_json()) == report


def test_the_report_of_predictors_and_their_cost() -> None:
    report = noted(
        ev.PredictorStarted(1, "p", 3),
        ev.DraftJudged(1, "p", "look", True, 0.1),
        ev.DraftJudged(1, "p", "look", False, 0.2),
        ev.PredictorCharged(1, "p", DraftCost(100, 20, 0.5)),
        ev.PredictorFailed(1, "q", "down"),
        ev.PredictorSkipped(2, "p", "not worth it"),
        ev.SpeculationWasted(1, "look", 1.0, "loser", "p", 0.25),
    )
    assert report.predictors == {
        "p": PredictorReport(
            started=1, skipped=1, drafts=2, correct=1, input_tokens=100, output_tokens=20, money=0.5
        ),
        "q": PredictorReport(failures=1),
    }
    assert report.predictors["p"].precision == 0.5
    assert report.cost == 0.75
    assert "1 of 2 drafts right, started in 1 turns of 2, 120 tokens" in str(report)
    assert "cost: 0.75" in str(report)


def test_a_draft_that_was_not_run_could_have_saved_what_equation_1_says() -> None:
    report = noted(
        ev.TurnAnswered(1, 2.0, ("look", "look", "look")),
        ev.CallMissed(1, "look", 1.0, "shadow", draft_s=0.5),  # hidden behind the model whole
        ev.CallMissed(1, "look", 5.0, "shadow", draft_s=0.5),
        ev.CallMissed(1, "look", 5.0, "not predicted"),
    )
    assert [call.could_save_s for call in report.turns[0].calls] == [1.0, 1.5, 0.0]
    assert report.total.could_save_s == 2.5
    assert "2.50 s" in str(report)


def test_refused_submissions_are_counted_by_tool_and_by_reason() -> None:
    refused = ("look", "NotFoundError 404"), ("look", "NotFoundError 404"), ("find", "Timeout")
    report = noted(*(ev.SubmissionRefused(1, tool, reason) for tool, reason in refused))
    assert {name: each.refused_submissions for name, each in report.tools.items()} == {"look": 2, "find": 1}
    assert (report.total.refused_submissions, report.total.calls) == (3, 0)
    assert report.refusals == report.model_dump()["refusals"] == {"NotFoundError 404": 2, "Timeout": 1}
    assert report.turns[0].problems[2] == "the engine's tool cache refused a result of find: Timeout"
    assert (
        "3 results refused by the engine's tool cache: NotFoundError 404 (2), Timeout (1)"
        in str(report).splitlines()
    )
    assert SpeculationReport.model_validate_json(report.model_dump_json()) == report
    assert "refused" not in str(Reporter(turns_kept=1).report())


def test_old_turns_and_endless_problems_are_dropped_but_totals_are_not() -> None:
    reporter = Reporter(turns_kept=2)
    for _ in range(5):
        turn = reporter.next_turn()
        reporter.note(ev.CallMissed(turn, "look", 1.0, "not predicted"))
    reporter.note(ev.CallMissed(1, "look", 1.0, "of a turn that was dropped"))
    for number in range(100):
        reporter.note(ev.PredictorFailed(turn, "p", str(number)))
    report = reporter.report()
    assert [each.turn for each in report.turns] == [4, 5]
    assert report.total.misses == 6
    assert len(report.turns[-1].problems) == 16


def test_a_lost_speculation_gives_its_own_reason() -> None:
    seen = []

    observed = Reporter(turns_kept=2, observers=[SimpleNamespace(on_event=seen.append)])
    recorder = TurnRecorder(observed, observed.next_turn())
    lost = Speculation(Draft("look", "k"), ttl=1.0)
    lost.fail(OSError())
    recorder.wasted(lost, "loser")
    event = seen[-1]
    assert isinstance(event, ev.SpeculationWasted)
    assert event.reason == "the speculation failed with OSError"


def test_a_failing_observer_is_logged_without_the_error_that_the_event_reports(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def on_event(self, event: object) -> None:
            raise RuntimeError("the observer's own")

    reporter = Reporter(turns_kept=1, observers=[Broken()])
    try:
        raise ValueError("a secret argument")
    except ValueError:
        reporter.note(ev.PredictorFailed(1, "p", "ValueError"))
    assert "the observer's own" in caplog.text
    assert "secret" not in caplog.text


def test_counting_from_many_threads_loses_nothing() -> None:
    reporter = Reporter(turns_kept=5)
    turn = reporter.next_turn()

    def count() -> None:
        for _ in range(200):
            reporter.note(ev.CallClaimed(turn, "look", 1.0, 0.0, 0.0))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reporter.report().total.claims == 800
    assert reporter.report().total.saved_s == pytest.approx(800)


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
