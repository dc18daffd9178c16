"""Which messages cancel or move an event or delete a note, and what is asked or said instead."""

import contextlib
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentrt.examples.assistant.changes import CHANGES, DEPENDS, I_MEAN, NOT_CHANGED, OFF, TO_WHEN
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.meant import MEANT_EVENT, MEANT_NOTE
from agentrt.examples.assistant.planning import Planner
from agentrt.examples.assistant.results import Made
from agentrt.examples.assistant.sample_data import write_sample_data

WEDNESDAY = dt.date(2026, 11, 25)
CHANGED = """
cancel the dentist -> delete_event Dentist 2026-11-26
Please cancel my dentist appointment on Thursday -> delete_event Dentist 2026-11-26
could you call off the boiler check? -> delete_event Boiler check with Hanna 2026-11-27
call the choir practice off please -> delete_event Choir practice 2026-11-25
remove lunch with Priya from my calendar -> delete_event Lunch with Priya 2026-11-25
drop the guitar lesson on Sunday -> delete_event Guitar lesson 2026-11-29
take the train to Bergen off my calendar -> delete_event Train to Bergen 2026-12-01
delete the cabin weekend -> delete_event Cabin weekend 2026-12-04
I have to cancel the roofers on Saturday -> delete_event Roofers at the house 2026-11-28
can you cancel the dinner tomorrow? -> delete_event Dinner at the Green Lantern 2026-11-26
I can't make the dentist on Thursday, please cancel it -> delete_event Dentist 2026-11-26
ok cancel the dentits, I'm ill -> delete_event Dentist 2026-11-26
cancel the 12:30 lunch today -> delete_event Lunch with Priya 2026-11-25
cancel the appointment on Sunday -> delete_event Guitar lesson 2026-11-29
move the dentist to Friday -> move_event Dentist 2026-11-26 2026-11-27 09:30
move the dentist to Friday at 10:00 -> move_event Dentist 2026-11-26 2026-11-27 10:00
reschedule Thursday's dentist for next Monday, 3pm -> move_event Dentist 2026-11-26 2026-11-30 15:00
move the dentist on Thursday to 14:15 -> move_event Dentist 2026-11-26 2026-11-26 14:15
postpone the boiler check till May 8 -> move_event Boiler check with Hanna 2026-11-27 2027-05-08 10:00
push the guitar lesson back to 18:00 please -> move_event Guitar lesson 2026-11-29 2026-11-29 18:00
move the train to Bergen to December 2 instead -> move_event Train to Bergen 2026-12-01 2026-12-02 07:42
shift choir practice from 18:00 to 10 -> move_event Choir practice 2026-11-25 2026-11-25 10:00
move the cabin weekend to December 11 -> move_event Cabin weekend 2026-12-04 2026-12-11 
move Priya's lunch to tomorrow at the same time -> move_event Lunch with Priya 2026-11-25 2026-11-26 12:30
postpone the dentist by a week -> move_event Dentist 2026-11-26 2026-12-03 09:30
move the roofers two days later -> move_event Roofers at the house 2026-11-28 2026-11-30 08:00
bring the guitar lesson forward by half an hour -> move_event Guitar lesson 2026-11-29 2026-11-29 16:45
push the boiler check back an hour and a half -> move_event Boiler check with Hanna 2026-11-27 2026-11-27 11:30
move the dinner to 8 -> move_event Dinner at the Green Lantern 2026-11-26 2026-11-26 20:00
delete the note about the lasagne -> delete_note n11 Lasagne recipe
please delete my camping note -> delete_note n6 Camping list
remove the wifi note, I know it now -> delete_note n12 Wifi at the cabin
I would be grateful if you cancelled the dentist -> delete_event Dentist 2026-11-26
we need to cancel the dentist from Thursday -> delete_event Dentist 2026-11-26
delete n3 -> delete_note n3 Boiler service
cancel the dentist, Ben has the flu -> delete_event Dentist 2026-11-26
move the train to Bergen to the 5th, same time -> move_event Train to Bergen 2026-12-01 2026-12-05 07:42
push the boiler check to the 2nd -> move_event Boiler check with Hanna 2026-11-27 2026-12-02 10:00
the guitar lesson needs to come out of my diary -> delete_event Guitar lesson 2026-11-29
scratch the dentist, she is ill -> delete_event Dentist 2026-11-26
the camping list among my notes can go -> delete_note n6 Camping list
resched the dentist to friday 11am -> move_event Dentist 2026-11-26 2026-11-27 11:00
Could the guitar lesson go to Monday instead? -> move_event Guitar lesson 2026-11-29 2026-11-30 17:15
The dentist is ill. Friday at 11 would be better, so please move it there -> move_event Dentist 2026-11-26 2026-11-27 11:00
move tomorrow's dinner to half past 7 -> move_event Dinner at the Green Lantern 2026-11-26 2026-11-26 19:30
You can throw away the camping list note. -> delete_note n6 Camping list
del the camping list note pls dont need it anymore -> delete_note n6 Camping list
I've sold the car so the insurance note, not the house, that one can go. Delete it please. -> delete_note n7 Car insurance
My bicycle has been repaired, so would you please remove the note about that? -> delete_note n1 Bicycle repair
Priya is ill, so our lunch today is off. Take it out of the calendar, would you? -> delete_event Lunch with Priya 2026-11-25
I won't make the guitar lesson on Sunday, whip it out of the diary -> delete_event Guitar lesson 2026-11-29
choir practice tonight is off, so out with it -> delete_event Choir practice 2026-11-25
we sold the tent, so the camping list note can go -> delete_note n6 Camping list
Hanna is late on Friday, so the boiler check has to be at noon instead -> move_event Boiler check with Hanna 2026-11-27 2026-11-27 12:00
the roofers rang: they come at nine on Saturday and not at eight, can you fix that -> move_event Roofers at the house 2026-11-28 2026-11-28 09:00
the train to Bergen is now on Wednesday the 2nd, same time, please change it -> move_event Train to Bergen 2026-12-01 2026-12-02 07:42
move lunch with Priya to tomorrow, no hang on, Friday, 13:00 -> move_event Lunch with Priya 2026-11-25 2026-11-27 13:00
the guitar lesson has been postponed to the 30th at 6 -> move_event Guitar lesson 2026-11-29 2026-11-30 18:00
My dentist was put back by two days -> move_event Dentist 2026-11-26 2026-11-28 09:30
the dentist is being moved to Monday at 11 -> move_event Dentist 2026-11-26 2026-11-30 11:00
The dinner got moved to 8 on Friday. -> move_event Dinner at the Green Lantern 2026-11-26 2026-11-27 20:00
what is on today, and cancel the dentist -> list_events today, delete_event Dentist 2026-11-26
Write a note: cancel the dentist -> create_note cancel the dentist
"""  # noqa: E501, W291 - an event that lasts all day has no time
UNCHANGED = f"""
should I cancel the dentist? -> 
when do I cancel the dentist? -> 
can I move the dentist if it rains on Friday? -> 
don't cancel the dentist -> {NOT_CHANGED}
please do not delete the note about the lasagne -> {NOT_CHANGED}
I don't want to move the dentist -> {NOT_CHANGED}
cancel the dentist ... never mind -> {NOT_CHANGED}
cancel the dentist. Actually don't. -> {NOT_CHANGED}
the dentist is off -> {OFF.format("Dentist")}
move the dentist to last Monday -> {TO_WHEN}
if it rains, cancel the roofers -> {DEPENDS}
cancel the dentist if it snows -> {DEPENDS}
move the dentist to Friday unless Hanna comes -> {DEPENDS}
cancel the appointment -> {MEANT_EVENT}
cancel it -> {MEANT_EVENT}
We painted the house and I threw the flyer away. Cancel it. -> {MEANT_EVENT}
delete that note -> {MEANT_NOTE}
move the dentist -> {TO_WHEN}
the dentist has been rescheduled -> {TO_WHEN}
the launch is moved to Monday at 10 -> There is no event the launch. Nothing was changed.
the plumber has been put back to Friday at 9 -> There is no event plumber in the next 30 days. Nothing was changed.
Grandma has moved to Leeds -> 
move the dentist to next week -> {TO_WHEN}
move the dinner to the Blue Lantern on Friday -> {TO_WHEN}
move the dentist to Friday from 14:00 to 16:00 -> {TO_WHEN}
move the dentist forward by an hour -> {TO_WHEN}
move the cabin weekend an hour later -> {TO_WHEN}
cancel the event tomorrow -> Which one: Dentist, Thursday 26 November 09:30; Dinner at the Green Lantern, Thursday 26 November 19:00?
cancel my gym membership -> There is no event gym membership in the next 30 days. Nothing was changed.
cancel the dentist on Friday -> There is no event dentist on Friday 27 November. Nothing was changed.
cancel the dinner reservation -> There is no event dinner reservation in the next 30 days. Nothing was changed.
delete the note about zebras -> There is no note about zebras. Nothing was changed.
delete n99 -> I cannot do that: no note with id n99.
cancel swimming -> I cannot do that: Swimming recurs, and only single events can be changed; nothing was changed.
delete all my notes -> 
delete the notes about the boiler -> 
cancel everything tomorrow -> 
cancel the dentist and the boiler check -> 
delete the mail about the kayak -> 
delete the file club/minutes.txt -> 
move the note about the boiler to Friday -> 
remove Priya from the lunch -> 
remove the coffee from the camping note -> 
drop me a line -> 
I want to move to Bergen -> 
the dentist said that my teeth can stay -> 
when does the boiler check start on Friday? -> 
my sister moved her dentist to Friday -> 
change my password -> 
"""  # noqa: W291, E501 - they are planned as something else, or not at all


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    folder = tmp_path_factory.mktemp("sample") / "data"
    write_sample_data(folder, WEDNESDAY)
    with contextlib.closing(PersonalData.open(folder, today=lambda: WEDNESDAY)) as data:
        yield Planner(data, WEDNESDAY)


def planned(planner: Planner, message: str, *before: Made) -> tuple[str, str]:
    """Return the calls as text, and what is said."""
    steps = planner.plan(message, before, [])
    calls = [f"{name} {' '.join(given.values())}" for step in steps for name, given in step.calls]
    return ", ".join(calls), "".join(step.says for step in steps)


@pytest.mark.parametrize("line", CHANGED.strip("\n").splitlines())
def test_changes(planner: Planner, line: str) -> None:
    message, _, calls = line.partition(" -> ")
    assert planned(planner, message) == (calls, "")


@pytest.mark.parametrize("line", UNCHANGED.strip("\n").splitlines())
def test_nothing_is_changed(planner: Planner, line: str) -> None:
    message, _, says = line.partition(" -> ")
    calls, said = planned(planner, message)
    assert said == says
    assert not any(name in calls for name in CHANGES)


def made(name: str, result: Any, **arguments: str) -> Made:
    return Made(name, arguments, json.dumps(result))


READ = made("read_note", {"title": "Lasagne recipe", "text": ""}, id="n11")
NOTES = made(
    "search_notes", [{"id": "n3", "title": "Boiler service"}, {"id": "n5", "title": "Bread starter"}]
)
SUNDAY = made("list_events", [{"time": "17:15", "title": "Guitar lesson"}], date="Sunday")
THURSDAY = made(
    "list_events", [{"title": "Dentist"}, {"title": "Dinner at the Green Lantern"}], date="tomorrow"
)
ADDED = made("add_event", {"added": "Dentist"}, title="Dentist", date="Thursday")
ROOF = made("read_mail", {"subject": "Roofers at the house", "body": "They come on Monday."}, id="m1")
MOVED = made("move_event", {"moved": "Dentist"}, title="Dentist", date="today", new_date="2026-11-26")


@pytest.mark.parametrize(
    ("before", "message", "calls"),
    [
        (READ, "delete it", "delete_note n11 Lasagne recipe"),
        (READ, "thanks, now delete that note please", "delete_note n11 Lasagne recipe"),
        (NOTES, "delete the second one", "delete_note n5 Bread starter"),
        (SUNDAY, "cancel that", "delete_event Guitar lesson 2026-11-29"),
        (SUNDAY, "move it to Monday", "move_event Guitar lesson 2026-11-29 2026-11-30 17:15"),
        (THURSDAY, "cancel the first one", "delete_event Dentist 2026-11-26"),
        (MOVED, "move it to 11:00", "move_event Dentist 2026-11-26 2026-11-26 11:00"),
        (ADDED, "oh, cancel it", "delete_event Dentist 2026-11-26"),
        (ADDED, "make that 21:00", "move_event Dentist 2026-11-26 2026-11-26 21:00"),
        (ADDED, "no, on Friday at 10", "move_event Dentist 2026-11-26 2026-11-27 10:00"),
        (ADDED, "hm, actually make it half an hour later", "move_event Dentist 2026-11-26 2026-11-26 10:00"),
        (ADDED, "sorry, next Monday", "move_event Dentist 2026-11-26 2026-11-30 09:30"),
        (ADDED, "bump it by two days", "move_event Dentist 2026-11-26 2026-11-28 09:30"),
        (MOVED, "an hour earlier please", "move_event Dentist 2026-11-26 2026-11-26 08:30"),
        (ADDED, "and on Friday?", "list_events Friday"),
        (THURSDAY, "actually, Friday", "list_events Friday"),
        (THURSDAY, "shift the dentist an hour later", "move_event Dentist 2026-11-26 2026-11-26 10:30"),
        (SUNDAY, "can you make it 18:00?", "move_event Guitar lesson 2026-11-29 2026-11-29 18:00"),
        (ADDED, "you know what, kill it, I am out that day", "delete_event Dentist 2026-11-26"),
        (ROOF, "move it to Monday, same time", "move_event Roofers at the house 2026-11-28 2026-11-30 08:00"),
        (made("read_mail", {"subject": ""}, id="m1"), "delete it", ""),
        (READ, "move it to Friday", ""),
        (READ, "don't delete it", ""),
    ],
)  # fmt: skip
def test_what_was_shown_is_meant(planner: Planner, before: Made, message: str, calls: str) -> None:
    assert planned(planner, message, before)[0] == calls


@pytest.mark.parametrize(
    ("asked", "answered", "calls"),
    [
        ("cancel the event tomorrow", "the first one", "delete_event Dentist 2026-11-26"),
        ("cancel the event tomorrow", "dinner", "delete_event Dinner at the Green Lantern 2026-11-26"),
        ("cancel it", "Dentist, Thursday 26 November 09:30", "delete_event Dentist 2026-11-26"),
        ("move it to Friday", "the dentist", "move_event Dentist 2026-11-26 2026-11-27 09:30"),
        ("delete that note", "the one about the lasagne", "delete_note n11 Lasagne recipe"),
        ("cancel the event tomorrow", "none", ""),
    ],
)
def test_an_answer_says_which_one(planner: Planner, asked: str, answered: str, calls: str) -> None:
    assert planned(planner, f"{asked}{I_MEAN}{answered}")[0] == calls
