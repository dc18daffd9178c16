"""What ``agentrt top`` draws, and how it fits the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agentrt.cli.top.columns import Column, fitted
from agentrt.cli.top.state import TopState
from agentrt.cli.top.view import clean, draw
from tests.agentrt.cli.top.frames import frame, request


def drawn(width: int, *frames: dict[str, object]) -> str:
    state = TopState()
    for each in frames:
        state.apply(each)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(draw(state, "here"))
    return console.export_text(styles=False)


def test_names_are_no_commands_to_the_terminal() -> None:
    name = "\x1b]0;title\x07\x1b[2J[bold]\r\n\u202e"
    row = request(app=name, id=name, context=name, state="decode", promoted=True, position=None)
    ended = row | {"outcome": name, "queued_s": None, "first_token_s": 0.1, "total_s": 1.0}
    held = [{"app": name, "context": name, "bytes": 1}]
    kv = {"bytes": 2, "free_bytes": 1, "cached_bytes": 0, "held": held}
    shown = drawn(
        400,
        frame(0.0),
        frame(
            1.0,
            2,
            name=name,
            status=name,
            requests=[row],
            ended=[ended],
            kv=kv,
            stalled_s=0,
            answered=[{"tools": [name]}],
            kernels=[[1, 0.5, 0.1, 1, 1, 1, name, 0]],
        ),
    )
    assert not set(shown) & set("\x1b\x07\r\u202e")
    assert shown.count("[bold]") == 12
    assert str(clean(None)) == ""


REQUESTS = [
    request(app="an-app-with-a-long-name", id="gen_01234567", context="ctx_01234567", position=1234),
    request(app="b", id="gen_12345678", state="prefill", prefilled=0.45, promoted=True, position=None),
    request(**{"class": "reactive", "id": "gen_23456789", "state": "decode", "position": None}),
]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_class_state_and_position_are_readable(width: int) -> None:
    lines = drawn(width, frame(1.0, waiting=1, requests=REQUESTS)).splitlines()
    assert max(map(len, lines)) <= width
    head = next(index for index, line in enumerate(lines) if line.startswith("class "))
    assert "state" in lines[head]
    assert "position" in lines[head]
    for line, said in zip(
        lines[head + 1 :],
        (("proactive", "waiting", "1234"), ("proactive", "prefill 45%, pro"), ("reactive", "decode")),
        strict=False,
    ):
        assert all(word in line for word in said)
    shown = "\n".join(lines)
    assert ("first token in 1.00 s" in shown) is (width >= 80)
    assert ("an-app-with-a-long-name" in shown) is (width == 200)
    assert ("an-app" in shown) is (width >= 60)
    assert ("ctx_" in shown) is (width >= 120)


def test_columns_become_shorter_before_others_are_left_out() -> None:
    columns = [
        Column("a"),
        Column("b", shortest=4, left_out=1),
        Column("c", left_out=2),
        Column("d", shortest=3),
    ]
    natural = [5, 10, 6, 8]
    assert fitted(columns, natural, 35) == {0: 5, 1: 10, 2: 6, 3: 8}
    assert fitted(columns, natural, 34) == {0: 5, 1: 9, 2: 6, 3: 8}
    assert fitted(columns, natural, 24) == {0: 5, 1: 4, 2: 6, 3: 3}
    assert fitted(columns, natural, 23) == {0: 5, 1: 7, 3: 7}
    assert fitted(columns, natural, 15) == {0: 5, 3: 8}
    assert fitted(columns, natural, 3) == {0: 5, 3: 3}, "what must not be left out stays"


def test_twenty_requests_are_drawn() -> None:
    shown = drawn(120, frame(1.0, waiting=25, requests=REQUESTS[:1] * 25))
    assert shown.count("gen_01234567") == 20
    assert "and 5 more" in shown
