"""Calls have the arguments that the user has said."""

import datetime as dt
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant.arguments import QUESTIONS, settle
from agentrt.examples.assistant.dates import parse_days

WEDNESDAY = dt.date(2026, 11, 18)
WORDS = st.sampled_from("swimming sauna Friday Sunday 8:00 17:00 at on and Anna milk buy tomorrow".split())  # noqa: SIM905
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("name", "given", "said", "settled"),
    [
        ("get_weather", {"city": "Oslo"}, "how warm is it in Oslo?", {"city": "Oslo"}),
        ("get_weather", {"city": "London"}, "will it rain?", "In which city?"),
        ("list_events", {"date": "2023-10-05"}, "what is on tomorrow?", {"date": "tomorrow"}),
        ("list_events", {"date": "next week"}, "what is on next week?", {"date": "next week"}),
        ("list_events", {"date": "today"}, "when do I meet Lisa?", "On which day?"),
        ("create_note", {"text": "buy candles"}, "write a note: buy candles", {"text": "buy candles"}),
        ("create_note", {"text": "Anna likes cats"}, "write a note", "What should the note say?"),
        ("create_note", {"text": "Candles!"}, "Write a note: buy tea", {"text": "buy tea"}),
        ("create_note", {"text": "x"}, "remember that the key is here", {"text": "the key is here"}),
        (
            "add_event",
            {"title": "Add dentist", "date": "Friday", "time": "09:00"},
            "add dentist on Friday at 9am",
            {"title": "dentist", "date": "Friday", "time": "09:00"},
        ),
        (
            "add_event",
            {"title": "dentist", "date": "Friday", "time": "10:00"},
            "add dentist on Friday",
            "At what time?",
        ),
        (
            "add_event",
            {"title": "swimming", "date": "Sunday", "time": "8:00"},
            "swimming Friday 8:00 and sauna Sunday 17:00",
            {"title": "swimming", "date": "Friday", "time": "8:00"},
        ),
        (
            "add_event",
            {"title": "swimming", "date": "Sunday", "time": "17:00"},
            "swimming Friday 8:00 and sauna Sunday 17:00",
            "At what time?",
        ),
        (
            "add_event",
            {"title": "swimming and sauna", "date": "Sunday", "time": "17:00"},
            "swimming Friday 8:00 and sauna Sunday 17:00",
            "What is the event?",
        ),
        ("search_mail", {"query": "assistant"}, "mail from Anna?", {"query": "mail from Anna?"}),
        ("search_mail", {"query": "Anna"}, "mail from Anna?", {"query": "Anna"}),
        ("unknown", {"x": 1}, "", {"x": 1}),
    ],
)
def test_settled(name: str, given: dict[str, Any], said: str, settled: dict[str, Any] | str) -> None:
    assert settle(name, given, said, "", WEDNESDAY) == settled
    if isinstance(settled, str):
        assert settled in QUESTIONS


def test_the_message_before_counts() -> None:
    given = {"title": "lunch", "date": "Friday", "time": "12:00"}
    assert settle("add_event", given, "add lunch at 12:00", "what is on Friday?", WEDNESDAY) == given


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_no_event_has_words_of_others(said: str, title: str, date: str, time: str) -> None:
    settled = settle("add_event", {"title": title, "date": date, "time": time}, said, "", WEDNESDAY)
    if isinstance(settled, str):
        return
    assert {*re.findall(r"\w+", settled["title"])} - {"at"} <= {*re.findall(r"\w+", said)}
    assert settled["date"] in said or {*settled["date"].split()} <= {*said.split()}
    parse_days(settled["date"], WEDNESDAY)
