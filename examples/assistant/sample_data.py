"""A made-up person's notes, calendar, mail and files, written in the formats that real programs use.

The same every time but for the dates, which lie around today so that "tomorrow" has something on. People and
things are invented; the texts are short because the demonstration model reads them out.
"""

from __future__ import annotations

import datetime as dt
import mailbox
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

import icalendar

from .notes import Notes

# Blank lines between the notes; the first line is the title.
_NOTES = """\
Lasagne recipe
Brown the onions slowly, add two cans of tomatoes and a bay leaf. Bake for forty minutes at 190
degrees.

Boiler service
The boiler was last checked in March. Call Hanna Falk before winter, the service code is 4471.

Books to read
Borrow The Salt Road from Marta and finish The Paper Lighthouse before the club meets.

Bicycle repair
The rear brake squeaks in the rain. New pads cost 18 euros at the shop near the station.

Birthday ideas for Emil
Emil wants a headlamp, a map of the northern lakes or a jar of chestnut honey.

Garden plan
Plant the tulips by the fence, move the mint to a pot and give the old apple tree one more year.

Wifi at the cabin
The network is called moosehouse and the password is seven red kettles.

Guitar lessons
Practice the bridge of the harbour song slowly. Next lesson with Oskar is about rhythm.

Camping list
Bring the blue tent, the small stove, three candles and the good coffee.

Knee exercises
Ten slow squats, then two minutes on one leg. The doctor says stop when it hurts.

Bread starter
Feed the starter every Sunday with rye flour. It smells like apples when it is happy.

Car insurance
The insurance ends in June. The yellow folder on the shelf has the old contract.
"""

# Blank lines between the mails; the first line is the sender, the second the subject.
_READ_MAILS = """\
Nadia Berg <nadia@example.org>
Roof repair
The roofers come on Monday at eight. They need the ladder and a free driveway.

Emil Okafor <emil@example.org>
Dinner on Saturday
I booked a table for six at the Green Lantern. Bring your camera and an appetite.

City Library <desk@library.example>
Overdue book
The Paper Lighthouse is nine days late. The fee is two euros so far.
"""
_NEW_MAILS = """\
Marta Silva <marta@example.org>
Choir concert
Our concert moved to the old station hall. Doors open at seven and the soup is free.

Tom Hansen <tom@example.org>
Kayak for sale
My red kayak is yours for 240 euros. It leaks a little, but only when you sing.

Hanna Falk <hanna@example.org>
Boiler appointment
I can check your boiler on Thursday at ten. Please clear the shelf in front of it.

Priya Rao <priya@example.org>
Project deadline
The bridge drawings are due on the 14th. I will send the measurements tonight.

Northwind Rail <tickets@rail.example>
Train tickets
Your train to Bergen leaves at 07:42 from platform 3. Seats 61 and 62 are yours.

Oskar Lund <oskar@example.org>
Lost cat
Pickle is back. She slept in the piano for two days and wants tuna.

Doctor Ines Vega <clinic@example.org>
Test results
Your blood test looks fine. Drink more water and come back in spring.

Greta Klein <greta@example.org>
Market stall
We sold forty jars of jam and one umbrella. Your share is 73 euros.

Yusuf Kaya <yusuf@example.org>
Moving day
The van arrives at nine. Strong arms get pizza, weak arms get the lamps.
"""

# (days from today, start, end, title)
_EVENTS = (
    (0, "12:30", "13:30", "Lunch with Priya"),
    (0, "18:00", "19:00", "Choir practice"),
    (1, "09:30", "10:00", "Dentist"),
    (1, "19:00", "22:00", "Dinner at the Green Lantern"),
    (2, "10:00", "11:00", "Boiler check with Hanna"),
    (3, "08:00", "16:00", "Roofers at the house"),
    (4, "17:15", "18:00", "Guitar lesson"),
    (6, "07:42", "14:10", "Train to Bergen"),
)
_WEEKLY = ("18:30", "19:30", "Swimming")  # on the weekday of the day after tomorrow, since four weeks ago
_ALL_DAY = (9, 2, "Cabin weekend")  # days from today, length in days

# Blank lines between the files; the first line is the path.
_FILES = """\
garden/plan.md
The tulips go along the fence and the beans climb the south wall. Water the young plum tree twice a
week.

garden/seeds.txt
We still have beans, dill and two kinds of squash. The carrots from last year did not like us.

house/heating.md
Bleed the radiators in October. The pressure should stay between one and two bar.

house/paint.txt
The kitchen wall is sea foam green, the hall is warm white. Four litres cover the kitchen twice.

recipes/soup.md
Roast one pumpkin with ginger, add coconut milk and blend. Serve with toasted seeds.

recipes/pancakes.txt
Three eggs, two cups of flour, a pinch of salt. Let the batter rest while you set the table.

travel/bergen.md
Take the tram to the harbour and walk up the hill before noon. The fish market closes at four.

travel/packing.txt
Rain jacket, wool socks, the small binoculars and a deck of cards.

work/bridge.md
The bridge needs new bolts on the east side. Priya has the measurements from 2019.

club/minutes.txt
Greta will bring the jam, Yusuf will fix the projector and nobody wants to be treasurer.
"""


def write_sample_data(folder: Path, today: dt.date) -> None:
    """Create ``folder`` with ``notes.db``, ``calendar.ics``, ``mail.mbox`` and ``files/``."""
    folder.mkdir(parents=True)
    notes = Notes(folder / "notes.db")
    for title, *lines in _paragraphs(_NOTES):
        notes.create(" ".join(lines), title)
    (folder / "calendar.ics").write_bytes(_calendar(today).to_ical())
    _write_mails(folder / "mail.mbox", today)
    for path, *lines in _paragraphs(_FILES):
        file = folder / "files" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(lines) + "\n", encoding="utf-8")


def _calendar(today: dt.date) -> icalendar.Calendar:
    calendar = icalendar.Calendar()
    calendar.add("prodid", "-//agentrt//sample data//EN")
    calendar.add("version", "2.0")
    for number, (days, start, end, title) in enumerate(_EVENTS):
        calendar.add_component(_event(number, title, today + dt.timedelta(days), start, end, today))
    start, end, title = _WEEKLY
    weekly = _event(len(_EVENTS), title, today + dt.timedelta(2 - 28), start, end, today)
    weekly.add("rrule", {"freq": "weekly"})
    calendar.add_component(weekly)
    days, length, title = _ALL_DAY
    whole = icalendar.Event()
    whole.add("uid", f"{len(_EVENTS) + 1}@sample.agentrt")
    whole.add("dtstamp", dt.datetime.combine(today, dt.time(), dt.UTC))
    whole.add("summary", title)
    whole.add("dtstart", today + dt.timedelta(days))
    whole.add("dtend", today + dt.timedelta(days + length))
    calendar.add_component(whole)
    return calendar


def _event(number: int, title: str, day: dt.date, start: str, end: str, today: dt.date) -> icalendar.Event:
    event = icalendar.Event()
    event.add("uid", f"{number}@sample.agentrt")
    event.add("dtstamp", dt.datetime.combine(today, dt.time(), dt.UTC))
    event.add("summary", title)
    event.add("dtstart", dt.datetime.combine(day, dt.time.fromisoformat(start)))
    event.add("dtend", dt.datetime.combine(day, dt.time.fromisoformat(end)))
    return event


def _write_mails(path: Path, today: dt.date) -> None:
    read, new = _paragraphs(_READ_MAILS), _paragraphs(_NEW_MAILS)
    last = dt.datetime.combine(today, dt.time(7), dt.UTC)
    box = mailbox.mbox(path, create=True)
    try:
        for number, (sender, subject, *lines) in enumerate([*read, *new]):
            sent = last - dt.timedelta(hours=5 * (len(read) + len(new) - number))
            mail = EmailMessage()
            mail["From"] = sender
            mail["To"] = "me@example.org"
            mail["Subject"] = subject
            mail["Date"] = format_datetime(sent)
            mail["Message-ID"] = f"<{number}@sample.agentrt>"
            mail.set_content(" ".join(lines))
            message = mailbox.mboxMessage(mail)
            message.set_from("MAILER-DAEMON", sent.timetuple())
            if number < len(read):
                message.set_flags("RO")
            box.add(message)
        box.flush()
    finally:
        box.close()


def _paragraphs(text: str) -> list[list[str]]:
    return [paragraph.splitlines() for paragraph in text.strip().split("\n\n")]
