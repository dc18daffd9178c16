from __future__ import annotations

import pytest

from agentrt.bench.assistant import main
from agentrt.bench.assistant.dialogues import Dialogue, Turn, Write
from agentrt.bench.assistant.main import Size, run
from agentrt.bench.common.estimates import share

pytestmark = pytest.mark.bench

TALKED = Dialogue(
    group="follow_up",
    turns=(
        Turn(say="What is on my calendar tomorrow?", tools=("list_events",), answer=("Dentist", "19:00")),
        Turn(say="Write a note: buy candles", tools=(), answer=()),
        Turn(say="What is the weather in Oslo?", tools=("get_weather",), answer=("no such thing",)),
    ),
)
ASKED = Dialogue(
    group="write",
    turns=(
        Turn(
            say="Write a note: buy soap",
            tools=(),
            answer=(),
            writes=(Write(name="create_note", text=("soap",)),),
        ),
        Turn(say="Look it up on the web", tools=("search_web",), answer=()),
    ),
)


def test_dialogues_on_nano(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "load_dialogues", lambda: [TALKED, ASKED])
    monkeypatch.setitem(main.SIZES, True, Size(1, 1))
    report = run(quick=True, workloads=None, progress=lambda line: None)
    figures = report.figures
    assert figures["exact_fraction"] == share(2, 4)  # nano has no web
    assert figures["follow_up_fraction"] == share(0, 2)
    assert figures["wrong_writes"].value == 1
    assert figures["false_statement_fraction"] == share(0, 4)
    assert figures["silent"].value == figures["loops"].value == 0
    assert figures["second_start_ttft_s"].value > 0
    (table,) = report.tables
    assert [row[:2] for row in table.rows] == [("single", 1), ("follow up", 2), ("write", 1)]
