"""Calls have the arguments that the user has said."""

import datetime as dt
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant.arguments import NOT_ASKED, QUESTIONS, dictated_note, settle
from agentrt.examples.assistant.dates import parse_days

WEDNESDAY = dt.date(2026, 11, 18)
UNSURE = "I am not sure what you mean. Ask in other words."
WORDS = st.sampled_from("swimming sauna Friday Sunday 8:00 17:00 at on and Anna milk buy tomorrow".split())  # noqa: SIM905
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("name", "given", "said", "settled"),
    [
        ("get_weather", {"city": "Frau Vogt"}, "How much do I owe Frau Vogt?", UNSURE),
        ("search_mail", {"query": "Do can I help"}, "Do I have mail?", {"query": "Do I have mail?"}),
        ("get_weather", {"city": "Oslo"}, "how warm is it in Oslo?", {"city": "Oslo"}),
        ("get_weather", {"city": "London"}, "will it rain?", "In which city?"),
        ("get_weather", {"city": "Sunday"}, "will it rain on Sunday?", "In which city?"),
        ("list_events", {"date": "2023-10-05"}, "what is on tomorrow?", {"date": "tomorrow"}),
        ("list_events", {"date": "next week"}, "what is on next week?", {"date": "next week"}),
        ("list_events", {"date": "today"}, "when do I meet Lisa?", "On which day?"),
        ("create_note", {"text": "buy candles"}, "write a note: buy candles", {"text": "buy candles"}),
        ("create_note", {"text": "Anna likes cats"}, "write a note", "What should the note say?"),
        ("create_note", {"text": "Candles!"}, "a note on tea", "What should the note say?"),
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
            {"title": "dentist", "date": "Friday", "time": "25:00"},
            "add dentist on Friday at 25:00",
            "At what time?",
        ),
        (
            "add_event",
            {"title": "at 4pm", "date": "Friday", "time": "4pm"},
            "on Friday at 4pm",
            "What is the event?",
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
    if isinstance(settled, str) and settled != UNSURE:
        assert settled in QUESTIONS


@pytest.mark.parametrize(
    "said",
    [
        "Please do not add a party on Friday at 20:00",
        "Don't add a party on Friday at 20:00",
        "Please, don't add a party on Friday at 20:00",
        "Hi, should I add a party on Friday at 20:00?",
        "I never want a party on Friday at 20:00",
        "Should I add a party on Friday at 20:00?",
        "What happens if I add a party on Friday at 20:00?",
        "Is there a party on Friday at 20:00?",
        "Am I at a party on Friday at 20:00?",
    ],
)
def test_what_is_forbidden_or_asked_is_not_written(said: str) -> None:
    given = {"title": "party", "date": "Friday", "time": "20:00"}
    assert settle("add_event", given, said, "", WEDNESDAY) == NOT_ASKED
    assert settle("create_note", {"text": "party"}, said, "", WEDNESDAY) == NOT_ASKED


@pytest.mark.parametrize(
    "said",
    [
        "add work on Friday from 14:00 to 16:00",
        "add work on Friday at 14:00 for two hours",
        "add work every Friday at 14:00",
        "add work on Friday 14:00-16:00",
        "add work on Friday at 14:00 in Europe/London time",
    ],
)
def test_what_would_lose_a_part_is_not_added(said: str) -> None:
    given = {"title": "work", "date": "Friday", "time": "14:00"}
    settled = settle("add_event", given, said, "", WEDNESDAY)
    assert isinstance(settled, str)
    assert "have added nothing" in settled


@pytest.mark.parametrize(
    "said", ["can you add lunch on Friday at 12:00", "lunch on Friday, at 12:00, do not forget"]
)
def test_what_is_wanted(said: str) -> None:
    given = {"title": "lunch", "date": "Friday", "time": "12:00"}
    assert settle("add_event", given, said, "", WEDNESDAY) == given


def test_a_search_is_for_words_of_the_message_before_where_it_is_meant() -> None:
    before = "move the dentist to 10"
    asked = "what notes do I have?"
    assert settle("search_notes", {"query": "dentist"}, asked, before, WEDNESDAY) == {"query": asked}
    found = settle("search_mail", {"query": "Anna"}, "what does it say?", "mail from Anna?", WEDNESDAY)
    assert found == {"query": "Anna"}


def test_the_message_before_counts_for_questions_only() -> None:
    before = "what is on Friday at 12:00 in Oslo?"
    assert settle("get_weather", {"city": "Oslo"}, "and the weather?", before, WEDNESDAY) == {"city": "Oslo"}
    given = {"title": "lunch", "date": "Friday", "time": "12:00"}
    assert settle("add_event", given, "add lunch at 12:00", before, WEDNESDAY) == "On which day?"
    assert settle("add_event", given, "add lunch on Friday", before, WEDNESDAY) == "At what time?"
    assert settle("add_event", given, "add lunch on 12/11 at 12:00", before, WEDNESDAY) == "On which day?"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("Write a note: shopping\nmilk\neggs", "shopping\nmilk\neggs"),
        ("note: the code is \"A-7/x_9\" (not 'B')", "the code is \"A-7/x_9\" (not 'B')"),
        ("please make a note that 1. flour 2. sugar 3. butter", "1. flour 2. sugar 3. butter"),
        ("remember that Anna likes tulips", "Anna likes tulips"),
        ("Write a note: " + "long " * 100, ("long " * 100).strip()),
        ("write a note", None),
        ("Don't write a note: this is private", None),
        ("what does my note: x say?", None),
    ],
)
def test_dictation_is_to_the_letter(said: str, text: str | None) -> None:
    assert dictated_note(said) == text


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_no_event_has_words_of_others(said: str, title: str, date: str, time: str) -> None:
    settled = settle("add_event", {"title": title, "date": date, "time": time}, said, "", WEDNESDAY)
    if isinstance(settled, str):
        return
    assert {*re.findall(r"\w+", settled["title"])} - {"at"} <= {*re.findall(r"\w+", said)}
    assert settled["date"] in said or {*settled["date"].split()} <= {*said.split()}
    parse_days(settled["date"], WEDNESDAY)
