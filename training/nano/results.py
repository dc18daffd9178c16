"""What tools return, and the answer and its facts that follow from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any

from .vocabulary import Vocabulary

Outcome = tuple[str, str, tuple[str, ...]]
"""A tool's result as text, the answer that it leads to, and the facts which that answer must contain."""


def to_json(value: object) -> str:
    """JSON as tools print it: spaces after separators, unicode as it is."""
    return json.dumps(value, ensure_ascii=False)


class Results:
    """Draws results from one random source."""

    def __init__(self, rng: Random, vocabulary: Vocabulary) -> None:
        """``rng`` is shared with the rest of the author: the order of draws is part of the recipe."""
        self.rng = rng
        self.vocabulary = vocabulary

    def generic(self, noun: str = "") -> Outcome:
        """What a tool of no known family returns: an object, a list, a sentence, an error…"""
        rng, v = self.rng, self.vocabulary
        draw = rng.random()
        if draw < 0.08:
            return self._error(
                f"{rng.choice(['no', 'unknown', 'cannot find'])} {v.noun(rng)} {v.identifier(rng)}"
            )
        if draw < 0.11:
            return (
                rng.choice(["Error: ", "Error invoking tool: "]) + v.sentence(rng),
                "That did not work.",
                (),
            )
        if draw < 0.18:
            return (
                rng.choice(['{"ok": true}', "ok", "done", '{"status": "ok"}', '"ok"', '{"success": true}']),
                "Done.",
                ("Done.",),
            )
        if draw < 0.34:
            text = (
                v.prose(rng, 2)
                if rng.random() < 0.6
                else f"{v.integer(rng, 2)} {rng.choice(['C', 'km', 'EUR', 'kg', 'degrees'])}, {v.noun(rng)}"
            )
            return text, f"It says: {text}", (text,)
        if draw < 0.42:
            items = [v.title(rng) for _ in range(rng.randint(1, 3))]
            return to_json(items), "I found: " + "; ".join(items) + ".", tuple(items)
        if draw < 0.45:
            return "[]", "I found nothing.", ("nothing",)
        keys = rng.sample(
            [
                "result",
                "status",
                "value",
                "price",
                "level",
                "answer",
                "name",
                "date",
                "total",
                "code",
                "state",
                "distance",
                "owner",
                "phone",
                "time",
                re.sub(r"\W+", "_", noun or v.noun(rng)),
            ],
            rng.choice([1, 1, 1, 2, 2, 3]),
        )
        pairs = {}
        for key in dict.fromkeys(keys):
            kind = rng.random()
            pairs[key] = (
                v.identifier(rng)
                if kind < 0.2
                else v.topic(rng)
                if kind < 0.5
                else int(v.integer(rng))
                if kind < 0.65
                else float(f"{rng.randint(0, 999)}.{rng.randint(1, 99)}")
                if kind < 0.75
                else v.person(rng)
                if kind < 0.85
                else v.sentence(rng)
            )
        stated = [
            f"the {key} is {to_json(value) if not isinstance(value, str) else value}"
            for key, value in pairs.items()
        ]
        answer = " and ".join(stated) + "."
        return (
            to_json(pairs),
            answer[0].upper() + answer[1:],
            tuple(value if isinstance(value, str) else to_json(value) for value in pairs.values()),
        )

    def read(self, key: str, target: str) -> Outcome:
        """What reading the note, mail or file ``target`` returns; ``key`` names the family."""
        rng, v = self.rng, self.vocabulary
        if rng.random() < 0.06:
            return self._error(
                f"no {key.removeprefix('read_')} {rng.choice(['with id ', 'called ', ''])}{target}"
            )
        text = v.prose(rng)
        if rng.random() < 0.08:
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
            sender, subject = v.person(rng), v.title(rng)
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
        if key == "create_note":
            saved = v.identifier(rng, "n" if rng.random() < 0.7 else "")
            return (
                to_json({rng.choice(["saved", "saved", "saved", "id"]): saved}),
                f"I saved the note as {saved}.",
                (saved,),
            )
        if key == "list_events":
            date = values["date"]
            events = [
                {"time": v.time(rng), "title": v.title(rng)} for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))
            ]
            if not events:
                return rng.choice(["[]", "[]", '{"events": []}']), f"Nothing is planned for {date}.", (date,)
            shown = "; ".join(f"{event['time']} {event['title']}" for event in events)
            shape: Any = events if rng.random() < 0.8 else {"events": events}
            return (
                to_json(shape),
                f"Planned for {date}: {shown}.",
                (*(event["title"] for event in events), *(event["time"] for event in events)),
            )
        if key == "add_event":
            title, date, time = values["title"], values["date"], values["time"]
            result: dict[str, object] = (
                {"added": title, "date": v.date(rng) if rng.random() < 0.3 else date, "time": time}
                if rng.random() < 0.8
                else {"ok": True}
            )
            return to_json(result), f"I added {title}: {result.get('date', date)}, {time}.", (title, time)
        if key == "get_weather":
            city, degrees, sky = values["city"], rng.randint(-20, 42), v.sky(rng)
            draw = rng.random()
            if draw < 0.05:
                return self._error(f"unknown city {city}")
            pair = {
                rng.choice(["temperature", "temperature", "temperature", "temp", "celsius"]): degrees,
                rng.choice(["sky", "sky", "sky", "conditions", "weather"]): sky,
            }
            result = {"city": city, **pair} if draw < 0.75 else pair
            return (
                to_json(result),
                f"In {city} it is {degrees} degrees with {sky}.",
                (city, str(degrees), sky),
            )
        if key == "set_timer":
            return (
                rng.choice(['{"ok": true}', '{"started": true}']),
                f"The {values['noun']} timer runs for {values['minutes']} minutes.",
                (values["minutes"],),
            )
        if key == "calculate":
            number = v.amount_plain(rng)
            return (
                to_json({"result": float(number) if "." in number else int(number)}),
                f"The result is {number}.",
                (number,),
            )
        if key == "get_contact":
            phone = f"+{rng.randint(1, 99)} {rng.randint(100, 999)} {rng.randint(1000, 999999)}"
            return (
                to_json({"name": values["person"], "phone": phone}),
                f"The phone of {values['person']} is {phone}.",
                (phone,),
            )
        return self.generic()

    def _error(self, text: str) -> Outcome:
        return to_json({"error": text}), f"That did not work: {text}.", (text,)
