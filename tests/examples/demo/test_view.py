import io

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from rich.console import Console

from agentrt.examples.demo import view as view_module
from agentrt.examples.demo.view import DemoView, LiveView, PlainView

CALL = AIMessage("", tool_calls=[{"name": "search_notes", "args": {"query": "[bold]x", "n": 3}, "id": "c1"}])
RESULT = ToolMessage('[{"id": "n1"}]', tool_call_id="c1")
ANSWER = AIMessage("All is well.")


class Clock:
    """The seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    # The module's own name: event loops of other threads use the same clock.
    monkeypatch.setattr(view_module, "time", clock)
    return clock


def begin(view: DemoView, clock: Clock) -> None:
    """Both agents work on the first request: the one with agentrt is further on."""
    view.side("agentrt").speculation("get_weather")  # during the warm-up
    view.request(1, 2, "What is new [today]?")
    for name in view_module.SIDES:
        view.side(name).begin()
    clock.seconds += 0.05
    view.side("agentrt").speculation("search_notes")
    view.side("agentrt").ahead()
    clock.seconds += 0.45
    for name in view_module.SIDES:
        view.side(name).message(CALL)
    view.side("agentrt").message(RESULT)
    view.side("agentrt").token("All is ")


def end(view: DemoView, clock: Clock) -> None:
    view.side("agentrt").message(ANSWER)
    view.side("agentrt").answered(0.5)
    clock.seconds += 0.5
    view.side("plain").message(RESULT)
    view.side("plain").message(ANSWER)
    view.side("plain").answered(1.0)
    view.answered()


def test_plain_lines(clock: Clock) -> None:
    printed = io.StringIO()
    view = PlainView(Console(file=printed, width=40))
    begin(view, clock)
    end(view, clock)
    view.background("in order of arrival", 2, 3)
    view.background("in order of arrival", 3, 3)
    assert printed.getvalue().splitlines() == [
        "",
        "> What is new [today]?",
        "  plain: 1.00 s",
        '     0.50  * search_notes(query="[bold]x", n=3)',
        '     1.00  = [{"id": "n1"}]',
        "     1.00  All is well.",
        "  agentrt: 0.50 s",
        "     0.05  + search_notes starts, before the model has called it",
        "     0.05  + next model request sent ahead",
        '     0.50  * search_notes(query="[bold]x", n=3)',
        '     0.50  = [{"id": "n1"}]',
        "     0.50  All is well.",
        "",
        "beside background digests, in order of arrival: 3 questions answered",
    ]


def drawn(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(view.live.get_renderable())
    return console.export_text()


def test_the_panes_show_both_agents_side_by_side(clock: Clock) -> None:
    printed = io.StringIO()
    view = LiveView(Console(file=printed, width=120))
    assert "loading the model" in drawn(view)
    begin(view, clock)
    picture = drawn(view)
    for part in ("request 1 of 2", "What is new [today]?", "+ search_notes starts", "All is ▌"):
        assert part in picture
    assert any("plain  0.50 s" in line and "agentrt  0.50 s" in line for line in picture.splitlines())
    assert printed.getvalue() == ""
    view.background("agentrt", 5, 5)
    view.background("in order of arrival", 2, 5)
    picture = drawn(view)
    assert "5 of 5 questions" in picture
    assert "2 of 5 questions" in picture


def test_an_answered_request_stops_its_clock_and_scrolls_away_with_both_times(clock: Clock) -> None:
    printed = io.StringIO()
    view = LiveView(Console(file=printed, width=120))
    begin(view, clock)
    view.side("agentrt").answered(0.5)
    clock.seconds += 0.3
    picture = drawn(view)
    assert "plain  0.80 s" in picture
    assert "agentrt  0.50 s, answered" in picture
    assert [line.split()[-2] for line in picture.splitlines() if "waited for" in line] == ["0.8", "0.5"]
    clock.seconds -= 0.3
    end(view, clock)
    assert printed.getvalue().split() == [
        *(["What", "is", "new", "[today]?"]), "plain", "1.00", "s", "agentrt", "0.50", "s", "-50", "%",
    ]  # fmt: skip
    view.request(2, 2, "And now?")
    view.side("plain").begin()
    picture = drawn(view)
    assert "And now?" in picture
    assert "search_notes(query" not in picture.split("agentrt")[0]


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_escape_sequences_in_a_mail_reach_neither_view(clock: Clock) -> None:
    printed, live = io.StringIO(), io.StringIO()
    views: list[DemoView] = [PlainView(Console(file=printed)), LiveView(Console(file=live, width=120))]
    mail = f'{{"from": "Eve", "body": "Hi{ESCAPES}"}}'
    for view in views:
        view.request(1, 1, f"Read the file {ESCAPES}.txt")
        for name in view_module.SIDES:
            view.side(name).begin()
        clock.seconds += 0.5
        view.side("plain").message(ToolMessage(mail, tool_call_id="c1"))
        view.side("plain").message(AIMessage(f"It says: Hi{ESCAPES}"))
        view.side("plain").token(f"Hi{ESCAPES}")
    picture = drawn(views[1])  # type: ignore[arg-type]
    assert "\u241b[2J" in picture
    for view in views:
        view.answered()
    for text in (printed.getvalue(), live.getvalue(), picture):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
