"""Notes and events are in the words of the message, or are asked for."""

import datetime as dt
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.examples.assistant.dates import parse_date, parse_time
from agentrt.examples.assistant.dictation import dictated_note, note_that_was_said, notes_what_was_said
from agentrt.examples.assistant.writes import (
    NOT_ASKED,
    ONE_HOUR,
    WHICH_DAY,
    WHICH_EVENT,
    WHICH_TIME,
    wanted_events,
)

WEDNESDAY = dt.date(2026, 11, 18)
WORDS = st.sampled_from(
    "add swimming sauna Friday Sunday 8:00 17:00 25:00 December 4 at on and Anna milk , tomorrow".split()  # noqa: SIM905
)


EVENTS = """
add dentist on Friday at 9am -> dentist 2026-11-20 09:00
Could you kindly schedule 'book club' for the 8th of December, 7:30 pm? -> book club 2026-12-08 19:30
put lunch with Ben and Anna in my calendar for tomorrow at noon -> lunch with Ben and Anna 2026-11-19 12:00
lunch on Friday, at 12:00, do not forget -> lunch 2026-11-20 12:00
swimming Friday 8:00 and sauna Sunday 17:00 -> swimming 2026-11-20 08:00; sauna 2026-11-22 17:00
2 entries for monday pls, 9:00 vet and 13:00 passport -> vet 2026-11-23 09:00; passport 2026-11-23 13:00
calendar. sat 12 dec. 20h. party at Marta's. -> party at Marta's 2026-12-12 20:00
I have a job interview next Tuesday at ten o'clock, put it in my calendar -> job interview 2026-11-24 10:00
I want to go for a walk tomorrow at 5 in the afternoon, can you put it in my diary? -> walk 2026-11-19 17:00
My shift on Monday ends at 15:00, so set the eye doctor for 16:15 that day. -> eye doctor 2026-11-23 16:15
Put coffee with Nadia in for Monday at 15:00. -> coffee with Nadia 2026-11-23 15:00
tonight at nine call with grandma, put it in -> call with grandma 2026-11-18 21:00
day after tomorrow, two pm, interview - get that in the diary would you -> interview 2026-11-20 14:00
12 december, 17:00, wreath workshop, I want to see that as an event -> wreath workshop 2026-12-12 17:00
massage next week wednesday, the 25th, at four in the afternoon. create it -> massage 2026-11-25 16:00
Would you mind putting yoga in my calendar for Monday, quarter to six in the evening? -> yoga 2026-11-23 17:45
i've got a haircut on saturday 11 am, make sure its in the calendar -> haircut 2026-11-21 11:00
I need a haircut for Friday, in my calendar I mean at half past eight -> haircut 2026-11-20 08:30
the day after tomorrow at 19:00 theres a pub quiz, cna you add it to my calender -> pub quiz 2026-11-20 19:00
Set up a meeting called Budget review on 11/30 at 1pm -> Budget review 2026-11-30 13:00
tomorow 5pm pick up parcel, put in calender thx -> pick up parcel 2026-11-19 17:00
book club goes in for dec 10 at 8 in the evening -> book club 2026-12-10 20:00
can i get 'Run' on the calendar for sunday the 6th of december, 07:00 -> Run 2026-12-06 07:00
for the calendar: chess at half past seven on the 2nd -> chess 2026-12-02 07:30
could you put an eye test in my diary for Monday at two, my eyes hurt -> eye test 2026-11-23 14:00
put me down for a massage on Friday at half five in the evening -> massage 2026-11-20 17:30
block off Thursday at 2 PM for the stock count -> stock count 2026-11-19 14:00
slot the plumber in for Friday, no wait, Saturday at 9:00 -> plumber 2026-11-21 09:00
drinks with Ann on Friday at 8, stick it in -> drinks with Ann 2026-11-20 20:00
I'm seeing Ann at the harbour on Saturday at ten to four, add it -> seeing Ann at the harbour 2026-11-21 15:50
We\u2019re visiting Grandpa on Sunday at 3pm, put it in my calendar -> visiting Grandpa 2026-11-22 15:00
Make an appointment with the notary on 2026-12-03 at 14:40 -> appointment with the notary 2026-12-03 14:40
skating with Jo next Friday at 5pm -> skating with Jo 2026-11-27 17:00
pop supper with Jo in for Sunday at quarter past seven, before I forget -> supper with Jo 2026-11-22 19:15
I need the vet in my diary for Monday at ten past four -> vet 2026-11-23 16:10
put moving day in my calendar for Friday at 9:00 -> moving day 2026-11-20 09:00
could you put our open day in the diary, Saturday at 11:00 -> open day 2026-11-21 11:00
"""


@pytest.mark.parametrize("line", EVENTS.strip().splitlines())
def test_events(line: str) -> None:
    said, _, events = line.partition(" -> ")
    found = wanted_events(said, WEDNESDAY)
    assert isinstance(found, list)
    written = [
        f"{call['title']} {parse_date(call['date'], WEDNESDAY)} {parse_time(call['time']):%H:%M}"
        for _, call in found
    ]
    assert "; ".join(written) == events


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("add dentist on Friday", WHICH_TIME),
        ("add dentist on Friday at 25:00", WHICH_TIME),
        ("add lunch at 12:00", WHICH_DAY),
        ("add lunch December 25:00 4 at 12:00", WHICH_DAY),
        ("add lunch on 12/11 at 12:00", WHICH_DAY),
        ("put yoga on my calendar", WHICH_DAY),
        ("i wanna add drinks with the choir people", WHICH_DAY),
        ("I'm going swimming on Thursday, add that please.", WHICH_TIME),
        ("I need a physio session in there for Tuesday, in my calendar I mean", WHICH_TIME),
        ("put her appointment in my calendar for tomorrow at ten in the morning", WHICH_EVENT),
        ("create an event on December 9 at 11:00", WHICH_EVENT),
        ("Please do not add a party on Friday at 20:00", NOT_ASKED),
        ("Hi, should I add a party on Friday at 20:00?", None),
        ("Don't add a party on Friday at 20:00", NOT_ASKED),
        ("What happens if I add a party on Friday at 20:00?", None),
        ("If nothing is on, add a party on Friday at 20:00", NOT_ASKED),
        ("Is there a party on Friday at 20:00?", None),
        ("Could I squeeze in a beer on Friday at 18:00?", None),
        ("add work on Friday from 14:00 to 16:00", ONE_HOUR),
        ("add work on Friday at 14:00 for two hours", ONE_HOUR),
        ("add work every Friday at 14:00", ONE_HOUR),
        ("add work on Friday 14:00-16:00", ONE_HOUR),
        ("add work on Friday at 14:00 in Europe/London time", ONE_HOUR),
        ("what is on Friday?", None),
        ("the plumber has moved to Friday at 9:00", None),
        ("the pool is closed on Friday at 9:00", WHICH_EVENT),
        ("i already added the pottery class for tuesday 6pm to the calendar myself", None),
        ("Yesterday my sister put a haircut in her calendar for friday 4pm.", None),
        ("put the gym on thursday at 7... never mind", None),
        ("I need an event on thursday 3 dec at 11 am", WHICH_EVENT),
        ("you have to be there on friday at 6pm", WHICH_EVENT),
        ("new calendar entry please", WHICH_EVENT),
        ("write a note: dentist", None),
    ],
)
def test_what_is_no_whole_event_is_asked_or_declined(said: str, answered: str | None) -> None:
    assert wanted_events(said, WEDNESDAY) == answered


def test_a_day_that_was_spoken_of_before_is_meant_where_none_is_said() -> None:
    assert wanted_events("enter lunch with Tom there, 12:30", WEDNESDAY, day_before="Friday") == [
        ("add_event", {"title": "lunch with Tom", "date": "Friday", "time": "12:30"})
    ]
    assert wanted_events("enter lunch with Tom, 12:30", WEDNESDAY, day_before="Friday") == WHICH_DAY
    assert wanted_events("enter lunch, 12:30", WEDNESDAY, said_day="Friday") != WHICH_DAY


def test_a_number_before_a_month_is_no_time() -> None:
    assert wanted_events("add dentist at 4 December", WEDNESDAY) == WHICH_TIME


@given(st.lists(WORDS, min_size=1, max_size=9).map(" ".join))
@example("dentist on Friday at 4")
def test_no_event_has_words_that_were_not_said(said: str) -> None:
    found = wanted_events(said, WEDNESDAY)
    for _, call in found if isinstance(found, list) else ():
        half_of_day = re.search(" in the (?:afternoon|evening)$", call["time"])  # which may only be meant
        for value in (call["title"], call["date"], call["time"][: half_of_day and half_of_day.start()]):
            assert {*re.findall(r"[\w:]+", value)} <= {*re.findall(r"[\w:]+", said)}
        parse_date(call["date"], WEDNESDAY)
        parse_time(call["time"])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("Write a note: shopping\nmilk\neggs", "shopping\nmilk\neggs"),
        ("note: the code is \"A-7/x_9\" (not 'B')", "the code is \"A-7/x_9\" (not 'B')"),
        ("please make a note that 1. flour 2. sugar 3. butter", "1. flour 2. sugar 3. butter"),
        ("remember that Anna likes tulips", "Anna likes tulips"),
        ("I want those sizes kept as a note: shoes 39, coat M", "shoes 39, coat M"),
        ("quick memo before I forget it: gate code 77", "gate code 77"),
        ("make me a packing note: boots, and take the map", "boots, and take the map"),
        ("take a note of something for me", ""),
        ("New note: batteries", "batteries"),
        ("scribble this down for me - the key is under the pot", "the key is under the pot"),
        ("Write a note: " + "long " * 100, ("long " * 100).strip()),
        ("write a note", ""),
        ("take a note please", ""),
        ("note this down", ""),
        ("Don't write a note: this is private", None),
        ("what does my note: x say?", None),
        ("notes about tea", None),
    ],
)
def test_dictation_is_to_the_letter(said: str, text: str | None) -> None:
    assert dictated_note(said) == text


@pytest.mark.parametrize(
    ("said", "is_meant"),
    [
        ("write that down somewhere please", True),
        ("great, save those ingredients as a note for the shop", True),
        ("put the phone number in a note", True),
        ("don't write that down", False),
        ("write down: tea", False),
        ("note down the room and the day please", True),
        ("put room and Monday in a note", True),
        ("put milk and tea in a note", False),
        ("write a note that the room is cold", False),
    ],
)
def test_what_was_said_is_noted(said: str, is_meant: bool) -> None:
    assert notes_what_was_said(said, lambda: "Room 4 on Monday") is is_meant


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("Ben dislikes nuts a lot. Note it, please", "Ben dislikes nuts a lot"),
        ("keep Lena's shoe size, 38, in my notes", "Lena's shoe size, 38"),
        ("ok thanks, write it down", None),
        ("First look in the mail which platform it is, then write that in a note", None),
        ("Ben dislikes nuts a lot, but never write that down", None),
        ("save those ingredients as a note", None),
        ("put Tom's phone number in a note", None),
    ],
)
def test_what_is_told_is_noted_if_asked_for(said: str, text: str | None) -> None:
    assert note_that_was_said(said) == text
