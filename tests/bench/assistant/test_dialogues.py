from __future__ import annotations

import datetime as dt
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agentrt.bench.assistant.dialogues import NOW, Judgement, Turn, Write, judge, load_dialogues
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.personal_assistant import assistant_tools

pytestmark = pytest.mark.bench

EVENT = Write(
    name="add_event", title=("dentist", "dentist appointment"), date=dt.date(2026, 11, 27), time="09:00"
)
NOTE = Write(name="create_note", text=("candles",))
CANCEL = Write(name="delete_event", title=("dentist",), date=dt.date(2026, 11, 27))
MOVE = Write(name="move_event", title=("dentist",), date=dt.date(2026, 11, 28), time="10:00")
DELETE = Write(name="delete_note", text=("candles",))
EVENT_OF_CALL = {"title": "The dentist", "date": "2026-11-27"}
MOVED = EVENT_OF_CALL | {"new_date": "2026-11-28", "new_time": "10:00"}
ADDED = {"title": "The dentist!", "date": "Friday", "time": "9 am"}


def taken(*calls: tuple[str, dict[str, Any]], says: str, result: str = "{}") -> list[AnyMessage]:
    """Return the messages of a turn with ``calls`` that all return ``result``, answered by ``says``."""
    made: list[AnyMessage] = []
    for number, (name, arguments) in enumerate(calls):
        call = {"name": name, "args": arguments, "id": str(number)}
        made += [AIMessage("", tool_calls=[call]), ToolMessage(result, tool_call_id=str(number))]
    return [*made, AIMessage(says)]


def asks(
    *tools: str, answer: tuple[str, ...] = (), writes: tuple[Write, ...] = (), refuse: bool = False
) -> Turn:
    return Turn(say="", tools=tools, answer=answer, writes=writes, refuse=refuse)


@pytest.mark.parametrize(
    ("turn", "messages", "known", "right"),
    [
        (asks(), taken(says="Hello!"), "", Judgement(True)),
        (asks(), taken(says="  "), "", Judgement(False, silent=True)),
        (asks(), taken(says="Go on. Go on. Go on. Go on."), "", Judgement(False, loops=True)),
        (asks(), taken(("get_weather", {}), says="Hello!"), "", Judgement(False)),
        (
            asks("get_weather", answer=("12|twelve",)),
            taken(("get_weather", {}), says="Twelve."),
            "",
            Judgement(True),
        ),
        (asks("get_weather"), taken(says="Fine."), "", Judgement(False)),
        (
            asks("get_weather"),
            taken(("get_weather", {}), says="17 degrees."),
            "12",
            Judgement(False, is_false=True),
        ),
        (
            asks("get_weather"),
            taken(("get_weather", {}), says="12 degrees.", result='{"error": "no city"}'),
            "12",
            Judgement(False),
        ),
        (
            asks("list_events"),
            taken(("list_events", {"date": "tomorrow"}), says="On 26/11."),
            "",
            Judgement(True),
        ),
        (asks("read_mail", answer=("Oslo",)), taken(("read_mail", {}), says="Rome."), "", Judgement(False)),
        (asks(refuse=True), taken(says="I can't do that."), "", Judgement(True)),
        (asks(refuse=True), taken(says="Of course."), "", Judgement(False, is_false=True)),
        (asks(), taken(says="OK, I've saved it."), "", Judgement(False, is_false=True)),
        (asks(writes=(EVENT,)), taken(("add_event", ADDED), says="Added."), "", Judgement(True)),
        (asks(writes=(EVENT,)), taken(says="At what time?"), "", Judgement(False)),
        (
            asks(writes=(EVENT,)),
            taken(("add_event", ADDED | {"date": "today"}), says="Added."),
            "",
            Judgement(False, wrong_writes=1),
        ),
        (
            asks(writes=(EVENT,)),
            taken(("add_event", ADDED), ("add_event", ADDED), says="Added."),
            "",
            Judgement(False, wrong_writes=1),
        ),
        (
            asks(writes=(NOTE, EVENT)),
            taken(("add_event", ADDED), ("create_note", {"text": "Buy Candles"}), says="Both are done."),
            "",
            Judgement(True),
        ),
        (asks(), taken(("create_note", {"text": "x"}), says="Saved."), "", Judgement(False, wrong_writes=1)),
        (
            asks(writes=(CANCEL,)),
            taken(("delete_event", EVENT_OF_CALL), says="Cancelled."),
            "",
            Judgement(True),
        ),
        (
            asks(),
            taken(("delete_event", EVENT_OF_CALL), says="Cancelled."),
            "",
            Judgement(False, wrong_writes=1),
        ),
        (asks(writes=(MOVE,)), taken(("move_event", MOVED), says="Moved."), "", Judgement(True)),
        (
            asks(writes=(MOVE,)),
            taken(("move_event", MOVED | {"new_time": "9:00"}), says="Moved."),
            "",
            Judgement(False, wrong_writes=1),
        ),
        (
            asks(writes=(DELETE,)),
            taken(("delete_note", {"id": "n1"}), says="Deleted.", result='{"title": "My Candles"}'),
            "",
            Judgement(True),
        ),
        (
            asks(writes=(DELETE,)),
            taken(("delete_note", {"id": "n1"}), says="Deleted.", result='{"title": "Soap"}'),
            "",
            Judgement(False, wrong_writes=1),
        ),
    ],
)
def test_a_turn_is_judged(turn: Turn, messages: list[AnyMessage], known: str, right: Judgement) -> None:
    assert judge(turn, messages, known) == right


def test_what_was_called_before_need_not_be_called_again() -> None:
    says = taken(says="She wants jam.")
    assert not judge(asks("read_mail", answer=("jam",)), says, "").exact
    assert judge(asks("read_mail", answer=("jam",)), says, "", ["read_mail"]).exact


def test_what_is_asked_for_can_be_found(tmp_path: Path) -> None:
    dialogues = load_dialogues()
    turns = [turn for dialogue in dialogues for turn in dialogue.turns]
    assert len(turns) == 177
    write_sample_data(tmp_path / "sample", NOW.date())
    with closing(PersonalData.open(tmp_path / "sample", today=NOW.date)) as data:
        names = {tool.name for tool in assistant_tools(data, Latencies(0, 0, 0), web=True, changes=True)}
    assert {name for turn in turns for name in turn.tools} <= names
    for turn in turns:
        assert not turn.refuse or not (turn.tools or turn.writes), turn.say
        for write in turn.writes:
            new = "new_" if write.name == "move_event" else ""
            arguments = (
                {"title": write.title[0], f"{new}date": f"{write.date}", f"{new}time": write.time}
                if write.title
                else {}
            )
            assert write.is_done_by(write.name, arguments or {"text": " ".join(write.text)}), json.dumps(
                turn.say
            )
