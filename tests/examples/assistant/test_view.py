import io

from langchain_core.messages import AIMessage, ToolMessage
from rich.console import Console

from agentrt.examples.assistant.view import LiveView, PlainView, describe

CALL = AIMessage("", tool_calls=[{"name": "search_notes", "args": {"query": "[bold]x", "n": 3}, "id": "c1"}])
RESULT = ToolMessage('[{"id": "n1"}]', tool_call_id="c1")
ANSWER = AIMessage("All is well.")


def test_a_message_in_short() -> None:
    assert describe(CALL) == ['* search_notes(query="[bold]x", n=3)']
    assert describe(RESULT) == ['= [{"id": "n1"}]']
    assert describe(ANSWER) == ["All is well."]
    assert describe(AIMessage("Let me see.", tool_calls=CALL.tool_calls)) == [*describe(CALL), "Let me see."]
    assert len(describe(ToolMessage("x" * 1000, tool_call_id="c1"))[0]) < 100


def show(view: PlainView | LiveView) -> None:
    view.begin(2)
    view.background("digest new mail", 0, 3)
    view.request(1, "What is new [today]?", "plain")
    view.message(CALL)
    view.speculation("search_notes")
    view.message(RESULT)
    view.token("All is ")


ANSWERED = [
    "",
    "> What is new [today]?",
    "  plain",
    '    * search_notes(query="[bold]x", n=3)',
    "    + search_notes started speculatively",
    '    = [{"id": "n1"}]',
    "    All is well.",
    "    (1.23 s)",
]


def test_plain_lines() -> None:
    printed = io.StringIO()
    view = PlainView(Console(file=printed, width=40))
    view.speculation("get_weather")  # during the warm-up
    show(view)
    view.message(ANSWER)
    view.turn(1.234)
    view.background("digest new mail", 3, 3)
    view.request(1, "What is new [today]?", "speculative")
    view.request(2, "And now?", "speculative")
    assert printed.getvalue().splitlines() == [
        *ANSWERED,
        "  background: digest new mail, 3 of 3 done",
        "  speculative",
        "",
        "> And now?",
        "  speculative",
    ]


def drawn(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(view.live.get_renderable())
    return console.export_text()


def test_the_live_picture_shows_what_is_going_on() -> None:
    printed = io.StringIO()
    view = LiveView(Console(file=printed, width=100))
    assert "loading the model" in drawn(view)
    show(view)
    picture = drawn(view)
    for part in (
        "request 1 of 2, plain agent", "What is new [today]?", 'search_notes(query="[bold]x", n=3)',
        "+ search_notes started speculatively", '= [{"id": "n1"}]', "All is ▌", "background: digest new mail",
        "0 of 3",
    ):  # fmt: skip
        assert part in picture
    assert printed.getvalue() == ""


def test_an_answered_request_scrolls_away() -> None:
    printed = io.StringIO()
    view = LiveView(Console(file=printed, width=100))
    show(view)
    view.message(ANSWER)
    view.turn(1.234)
    view.background("digest new mail", 2, 3)
    assert "waiting for the background tasks" in drawn(view)
    view.request(2, "And now?", "speculative")
    picture = drawn(view)
    assert "request 2 of 2, speculative agent" in picture
    assert "And now?" in picture
    assert "All is" not in picture
    assert "2 of 3" in picture
    assert printed.getvalue().splitlines() == ANSWERED
