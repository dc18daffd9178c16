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

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


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


def live_view(*, together: bool = True, width: int = 120) -> LiveView:
    return LiveView(Console(file=io.StringIO(), width=width, height=24), together=together)


def drawn(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(view.draw())
    return console.export_text()


def halves(view: LiveView) -> tuple[str, str]:
    """Return what stands in the left and in the right half of the terminal."""
    lines = drawn(view).splitlines()
    left, right = ("\n".join(line[start : start + 60] for line in lines) for start in (0, 60))
    return left, right


def test_the_panes_show_both_agents_side_by_side(clock: Clock) -> None:
    view = live_view()
    assert drawn(view) == "loading the model ...\n"
    begin(view, clock)
    left, right = halves(view)
    for pane, title in ((left, "╭─ without agentrt  0.5 s ─"), (right, "╭─ with agentrt  0.5 s ─")):
        assert title in pane
        assert "You: What is new [today]?" in pane
        assert 'calls search_notes(query="[bold]x", n=3)' in pane
    assert "search_notes starts, before the model has called it" in right
    assert right.index("has its result") < right.index("All is ▌")
    assert "starts, before" not in left
    assert "has its result" not in left
    assert "question 1 of 2" in left
    view.background("in order of arrival", 2, 5)
    assert "in order of arrival: 2 of 5 questions" in drawn(view)


def test_an_answer_stops_the_clock_of_its_pane_and_stays(clock: Clock) -> None:
    view = live_view()
    begin(view, clock)
    view.side("agentrt").answered(0.5)
    clock.seconds += 0.3
    assert "without agentrt  0.8 s" in halves(view)[0]
    assert "with agentrt  0.5 s" in halves(view)[1]
    clock.seconds -= 0.3
    end(view, clock)
    view.request(2, 2, "And now?")
    for name in view_module.SIDES:
        view.side(name).begin()
    clock.seconds += 0.2
    left, right = halves(view)
    for pane in (left, right):
        assert pane.index("All is well.") < pane.index("You: And now?")
    assert "without agentrt  1.2 s" in left
    assert "with agentrt  0.7 s" in right


def test_what_no_longer_fits_scrolls_away(clock: Clock) -> None:
    view = live_view()
    for number in range(1, 14):
        view.request(number, 13, f"Number {number}?")
        for name in view_module.SIDES:
            view.side(name).begin()
            view.side(name).message(ANSWER)
            view.side(name).answered(0.1)
        clock.seconds += 0.1
    picture = drawn(view)
    assert len(picture.splitlines()) < 24
    assert "Number 13?" in picture
    assert "Number 4?" not in picture


def test_a_narrow_terminal_has_one_pane_above_the_other(clock: Clock) -> None:
    view = live_view(width=79)
    begin(view, clock)
    lines = drawn(view).splitlines()
    titles = [number for number, line in enumerate(lines) if "with" in line and "agentrt " in line]
    assert titles == [0, 10]
    assert len(lines) < 24
    assert "with agentrt" in lines[10]


def test_agents_that_take_turns_are_replayed_together_at_their_pace(clock: Clock) -> None:
    view = live_view(together=False)
    view.request(1, 1, "What is new?")
    for name, seconds in (("plain", 3.0), ("agentrt", 2.0)):
        side = view.side(name)  # type: ignore[arg-type]
        side.begin()
        clock.seconds += seconds / 2
        side.message(CALL)
        clock.seconds += seconds / 2
        side.message(ANSWER)
        side.answered(seconds)
    assert "You:" not in drawn(view), "the other agent has been measured only now"
    with view.drawn():
        view.answered()
        for elapsed, in_left, in_right in (
            (0.875, "▌", "▌"),
            (1.125, "▌", "calls"),
            (1.625, "calls", "calls"),
            (2.125, "calls", "All is well."),
        ):
            clock.seconds = 105.0 + elapsed
            for pane, last in zip(halves(view), (in_left, in_right), strict=True):
                shown = [part for part in ("calls", "All is well.") if part in pane] or ["▌"]
                assert shown[-1] == last
        assert "replay both" in " ".join(drawn(view).split())
    assert clock.seconds == 108.0, "the block ends with the replay"
    assert all("All is well." in pane for pane in halves(view))


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_escape_sequences_in_a_mail_reach_neither_view(clock: Clock) -> None:
    printed, live = io.StringIO(), io.StringIO()
    panes = LiveView(Console(file=live, width=120), together=True)
    views: list[DemoView] = [PlainView(Console(file=printed)), panes]
    mail = f'{{"from": "Eve", "body": "Hi{ESCAPES}"}}'
    for view in views:
        view.request(1, 1, f"Read the file {ESCAPES}.txt")
        for name in view_module.SIDES:
            view.side(name).begin()
        clock.seconds += 0.5
        view.side("plain").message(ToolMessage(mail, tool_call_id="c1"))
        view.side("plain").message(AIMessage(f"It says: Hi{ESCAPES}"))
        view.side("plain").token(f"Hi{ESCAPES}")
    picture = drawn(panes)
    assert "\u241b[2J" in picture
    for view in views:
        view.answered()
    for text in (printed.getvalue(), live.getvalue(), picture):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
