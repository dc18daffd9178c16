"""Words, shapes, dates and times in text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.text import dates, name_words, shape, times, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on May 24th", ["2023-05-24"]),
        ("the 3rd of March, 2021", ["2021-03-03"]),
        ("Sept. 5", ["2023-09-05"]),
        ("2024-2-9 to 2024/12/31", ["2024-02-09", "2024-12-31"]),
        ("may I go on the 40th of May 99?", []),
        ("nothing", []),
    ],
)
def test_dates_are_written_out(text: str, expected: list[str]) -> None:
    assert [date for _, date, _ in dates(text, ("2023",))] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("at 2pm", ["14:00"]), ("12 a.m.", ["00:00"]), ("9:05 AM and 23:59", ["09:05", "23:59"]), ("25:00", [])],
)
def test_times_are_written_out(text: str, expected: list[str]) -> None:
    assert [time for _, time in times(text)] == expected


def test_words_of_names_and_requests_meet() -> None:
    assert name_words("reservationIds") == name_words("reservation_id") == name_words("reservation-id")
    assert set(words("Please list my reservations")) & set(name_words("list_reservations"))


@given(st.text())
def test_every_text_has_a_short_shape(text: str) -> None:
    assert len(shape(text)) <= 16


def test_alike_identifiers_have_one_shape() -> None:
    assert shape("4WQ150") == shape("ZFA04Y") != shape("HATHAT0")
    assert shape("mia_li_3668") == shape("raj_brown_5782")
    assert shape("2024-05-20") == shape("1999-12-01")
