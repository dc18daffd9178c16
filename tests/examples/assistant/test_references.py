"""What a message points at of what was found before it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentrt.examples.assistant.references import referred
from agentrt.examples.assistant.results import Made

NOTES = Made("search_notes", {"query": "all"}, json.dumps([{"id": f"n{number}"} for number in range(1, 4)]))
FILE = Made("search_files", {"query": "soup"}, '[{"path": "soup.txt"}]')
READ = Made("read_mail", {"id": "m7"}, '{"body": "Hello"}')
EVENTS = Made("list_events", {"date": "today"}, "[]")
FAILED = Made("read_mail", {"id": "m9"}, '{"error": "no such mail"}')


@pytest.mark.parametrize(
    ("said", "before", "call"),
    [
        ("read the second one", [NOTES], ("read_note", {"id": "n2"})),
        ("Could you open the 1st note?", [NOTES], ("read_note", {"id": "n1"})),
        ("and the third?", [NOTES, READ], ("read_note", {"id": "n3"})),
        ("what about the last one", [NOTES, EVENTS], ("read_note", {"id": "n3"})),
        ("the fourth one", [NOTES], None),
        ("what is the first month of the year?", [NOTES], None),
        ("what was the last thing you said?", [NOTES], None),
        ("add the second one to my calendar", [NOTES], None),
        ("read the second one", [EVENTS], None),
        ("what does she want?", [READ], ("read_mail", {"id": "m7"})),
        ("what does she want?", [FAILED], None),
        ("read it", [FILE], ("read_file", {"path": "soup.txt"})),
        ("read it", [NOTES], None),
        ("what's it about?", [], None),
        ("is it cold in Oslo?", [READ], None),
        ("what do you think of this long and winding road that I took to work?", [READ], None),
    ],
)
def test_referred(said: str, before: list[Made], call: tuple[str, dict[str, Any]] | None) -> None:
    assert referred(said, before, []) == call


def test_a_pronoun_means_the_last_message_and_an_ordinal_any_list() -> None:
    assert referred("what does she want?", [], [READ]) is None
    assert referred("read the first one", [], [NOTES]) == ("read_note", {"id": "n1"})
