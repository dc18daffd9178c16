"""What tools return, and the answer and its facts that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from .answers import sentence_of, to_json
from .shapes import Shapes
from .vocabulary import ENTRIES, Drawing, Vocabulary

Outcome = tuple[str, str, tuple[str, ...]]
"""A tool's result as text, the answer that it leads to, and the facts which that answer must contain."""

_OWN_SHAPE = {
    "create_note",
    "list_events",
    "add_event",
    "get_weather",
    "set_timer",
    "calculate",
    "get_contact",
}


class Results(Drawing):
    """Draws results."""

    def __init__(self, rng: Random, vocabulary: Vocabulary) -> None:
        super().__init__(rng, vocabulary)
        self.shapes = Shapes(rng, vocabulary)

    def generic(self, noun: str = "") -> Outcome:
        """What a tool of no known family returns: an object, a list, a sentence, an error…"""
        text, (answer, facts) = self.shapes.any(noun)
        return text, answer, facts

    def read(self, key: str, target: str) -> Outcome:
        """What reading the note, mail or file ``target`` returns; ``key`` names the family."""
        rng, v = self.rng, self.vocabulary
        draw = rng.random()
        if draw < 0.06:
            return self._failure(
                f"no {key.removeprefix('read_')} {rng.choice(['with id ', 'called ', ''])}{target}"
            )
        if draw < 0.12:
            return self.generic()
        text = v.prose(rng)
        if draw < 0.2:
            return text, f"It says: {text}", (text,)
        if key == "read_note":
            title = v.title(rng)
            shape = (
                {"title": title, "text": text}
                if rng.random() < 0.85
                else {"id": target, "title": title, "text": text}
            )
            return to_json(shape), f"Your note {title} says: {text}", (title, text)
        if key == "read_mail":
            sender, subject = v.draw(rng, "person"), v.title(rng)
            if rng.random() < 0.12:
                return to_json({"from": sender, "body": text}), f"{sender} writes: {text}", (sender, text)
            shape = {"from": sender, "subject": subject, "body": text}
            return to_json(shape), f"{sender} writes about {subject}: {text}", (sender, subject, text)
        shape = (
            {"path": target, "text": text} if rng.random() < 0.85 else {rng.choice(["text", "content"]): text}
        )
        return to_json(shape), f"The file {target} says: {text}", (target, text)

    def of_family(self, key: str, values: Mapping[str, str]) -> Outcome:
        """What a tool of the family ``key`` returns for the slot values of its request."""
        rng, v = self.rng, self.vocabulary
        if key not in _OWN_SHAPE or rng.random() < 0.3:
            return self.generic()
        if key == "create_note":
            saved = v.identifier(rng, "n" if rng.random() < 0.7 else "")
            return (
                to_json({rng.choice(["saved", "saved", "saved", "id"]): saved}),
                f"I saved the note as {saved}.",
                (saved,),
            )
        if key == "list_events":
            return self._events(values["date"])
        if key == "add_event":
            title, date, time = values["title"], values["date"], values["time"]
            result: dict[str, object] = (
                {"added": title, "date": v.date(rng) if rng.random() < 0.3 else date, "time": time}
                if rng.random() < 0.8
                else {"ok": True}
            )
            return to_json(result), f"I added {title}: {result.get('date', date)}, {time}.", (title, time)
        if key == "get_weather":
            return self._weather(values["city"])
        if key == "set_timer":
            return (
                rng.choice(['{"ok": true}', '{"started": true}']),
                f"The {values['noun']} timer runs for {values['minutes']} minutes.",
                (values["minutes"],),
            )
        if key == "calculate":
            number = v.draw(rng, "number")
            value = float(number) if "." in number else int(number)
            shape: Any = (
                value if rng.random() < 0.4 else {rng.choice(["result", "result", "value", "answer"]): value}
            )
            return to_json(shape), f"The result is {number}.", (number,)
        phone = v.draw(rng, "phone")
        return (
            to_json({"name": values["person"], "phone": phone}),
            f"The phone of {values['person']} is {phone}.",
            (phone,),
        )

    def _events(self, date: str) -> Outcome:
        rng, v = self.rng, self.vocabulary
        events = [
            {"time": v.draw(rng, "time"), "title": v.title(rng)}
            for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))
        ]
        if not events:
            return rng.choice(["[]", "[]", '{"events": []}']), f"Nothing is planned for {date}.", (date,)
        shown = "; ".join(f"{event['time']} {event['title']}" for event in events)
        shape: Any = events if rng.random() < 0.8 else {"events": events}
        return (
            to_json(shape),
            f"Planned for {date}: {shown}.",
            tuple(fact for event in events for fact in (event["time"], event["title"])),
        )

    def _weather(self, asked: str) -> Outcome:
        """A weather report with all, some or more than the usual entries."""
        rng, v, shapes = self.rng, self.vocabulary, self.shapes
        if rng.random() < 0.07:
            return self._failure(f"unknown city {asked}")
        degrees = rng.randint(-20, 42) if rng.random() < 0.8 else round(rng.uniform(-20, 42), 1)
        warmth: Any = (
            degrees
            if rng.random() < 0.85
            else f"{degrees}{rng.choice([' C', '°C', ' °C', '°F', ' F', ' °F', '°'])}"
        )
        sky = v.draw(rng, "sky")
        entries = [(v.draw(rng, "temperature_key"), warmth), (v.draw(rng, "sky_key"), sky)]
        shown = f"{warmth} degrees" if warmth == degrees else warmth
        draw = rng.random()
        if draw < 0.55:
            answer, facts = f"In {asked} it is {shown} with {sky}.", [asked, str(degrees), sky]
        elif draw < 0.8:
            entries, answer, facts = entries[:1], f"In {asked} it is {shown}.", [asked, str(degrees)]
        else:
            entries, answer, facts = entries[1:], f"The weather in {asked} is {sky}.", [asked, sky]
        more: dict[str, Any] = {}
        if rng.random() < 0.3:
            more = shapes.record(3) if rng.random() < 0.8 else shapes.nested()
            more.pop("city", None)
            for key in (*ENTRIES["temperature_key"], *ENTRIES["sky_key"]):
                more.pop(key, None)
        if more:
            rest, named = sentence_of(more)
            answer, facts = f"{answer} {rest}", [*facts, *named]
        if rng.random() < 0.15:
            entries.reverse()
        report: dict[str, Any] = dict(entries)
        if rng.random() < 0.12:
            report = {rng.choice(["current", "weather", "now", "today", "report", "data"]): report}
        named_city = {rng.choice(["city", "city", "city", "location", "place"]): asked}
        result = {**named_city, **report, **more} if rng.random() < 0.7 else {**report, **more}
        return shapes.written(result), answer, tuple(facts)

    def _failure(self, reason: str) -> Outcome:
        text, (answer, facts) = self.shapes.failure(
            reason if self.rng.random() < 0.7 else self.shapes.reason()
        )
        return text, answer, facts
