"""Tools' results of any shape: JSON values and texts, written as tools do, each with its answer."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from .answers import Answer, failed, shown, stated, to_json
from .vocabulary import Vocabulary
from .words import VALUE_KEYS


class Shapes:
    """Draws values from one random source."""

    def __init__(self, rng: Random, vocabulary: Vocabulary) -> None:
        """``rng`` is shared with the rest of the author: the order of draws is part of the recipe."""
        self.rng = rng
        self.vocabulary = vocabulary

    def key(self) -> str:
        """A key of an object: usual ones, nouns, two of them in the many ways of joining."""
        rng, v = self.rng, self.vocabulary
        draw = rng.random()
        if draw < 0.45:
            return rng.choice(VALUE_KEYS)
        first = re.sub(r"\W+", "_", v.noun(rng)).lower()
        if draw < 0.75:
            return first
        second = rng.choice(VALUE_KEYS) if rng.random() < 0.6 else v.noun(rng).lower()
        second = re.sub(r"\W+", "_", second)
        return f"{first}_{second}" if draw < 0.93 else first + second[:1].upper() + second[1:]

    def scalar(self) -> object:
        """A string, a number, a truth value or null."""
        rng, v = self.rng, self.vocabulary
        kind = rng.random()
        if kind < 0.1:
            return v.identifier(rng)
        if kind < 0.28:
            return v.topic(rng)
        if kind < 0.4:
            return v.noun(rng)
        if kind < 0.56:
            return int(v.integer(rng)) * rng.choice([1, 1, 1, 1, -1])
        if kind < 0.64:
            return float(f"{rng.randint(0, 999)}.{rng.randint(1, 99)}") * rng.choice([1, 1, 1, -1])
        if kind < 0.7:
            return v.person(rng)
        if kind < 0.74:
            return v.city(rng)
        if kind < 0.82:
            return v.sentence(rng)
        if kind < 0.87:
            return v.measure(rng)
        if kind < 0.92:
            return rng.choice([v.date(rng), v.time(rng), v.timestamp(rng)])
        if kind < 0.945:
            return rng.choice([v.address(rng), v.file_name(rng)])
        return rng.choice([True, False, True, False, None, ""])

    def record(self, most: int = 4) -> dict[str, Any]:
        """A flat object of one to ``most`` entries."""
        keys = dict.fromkeys(self.key() for _ in range(self.rng.randint(1, most)))
        return {key: self.scalar() for key in keys}

    def nested(self) -> dict[str, Any]:
        """An object with objects or lists in it."""
        rng = self.rng
        value = self.record(3) if rng.random() < 0.7 else {}
        for _ in range(rng.choice([1, 1, 2])):
            draw = rng.random()
            inner: Any
            if draw < 0.4:
                inner = self.record(3)
            elif draw < 0.5:
                inner = {self.key(): self.record(3)}
            elif draw < 0.75:
                inner = self.scalars()
            else:
                inner = self.records(2)
            value[self.key()] = inner
        return value

    def scalars(self) -> list[Any]:
        """A list of values of one kind."""
        rng, v = self.rng, self.vocabulary
        draws = (v.title, v.noun, v.person, v.identifier, v.city, v.sentence, v.measure, v.time)
        draw = rng.choice(draws)
        if rng.random() < 0.15:
            return [int(v.integer(rng)) for _ in range(rng.randint(1, 4))]
        return [draw(rng) for _ in range(rng.randint(1, 4))]

    def records(self, most: int = 3) -> list[dict[str, Any]]:
        """A list of objects, mostly with the same keys."""
        rng = self.rng
        keys = list(dict.fromkeys(self.key() for _ in range(rng.choice([1, 2, 2, 2, 3]))))
        rows = [{key: self.scalar() for key in keys} for _ in range(rng.randint(1, most))]
        if len(keys) > 1 and rng.random() < 0.15:
            rows[-1].pop(keys[-1])
        return rows

    def text(self) -> str:
        """What a tool returns as plain text: prose, a measure, lines of several kinds."""
        rng, v = self.rng, self.vocabulary
        draw = rng.random()
        if draw < 0.35:
            return v.prose(rng, 3)
        if draw < 0.5:
            return f"{v.measure(rng)}, {v.noun(rng)}"
        if draw < 0.62:
            return rng.choice([v.topic, v.noun, v.person, v.date, v.measure, v.city])(rng)
        count = rng.randint(2, 4)
        if draw < 0.72:
            return "\n".join(f"{rng.choice(['- ', '* '])}{v.title(rng)}" for _ in range(count))
        if draw < 0.82:
            return "\n".join(f"{self.key()}: {shown(self.scalar())}" for _ in range(count))
        if draw < 0.9:
            return "\n".join(v.sentence(rng) for _ in range(count))
        if draw < 0.95:
            return ", ".join(f"{v.noun(rng)} {v.integer(rng, 2)}" for _ in range(count))
        return "\n".join(f"{number}. {v.title(rng)}" for number in range(1, count + 1))

    def reason(self, thing: str = "") -> str:
        """What went wrong, in a tool's words."""
        rng, v = self.rng, self.vocabulary
        thing = thing or rng.choice([v.identifier(rng), v.noun(rng), v.city(rng)])
        return rng.choice(
            [
                f"no {v.noun(rng)} {thing}",
                f"unknown {v.noun(rng)} {thing}",
                f"cannot find {thing}",
                f"{v.noun(rng)} {thing} not found",
                f"{thing} is not {rng.choice(['allowed', 'available', 'there', 'a ' + v.noun(rng)])}",
                f"the {v.noun(rng)} took longer than {rng.randint(1, 90)} seconds",
                f"permission denied: {thing}",
                f"connection to {thing} refused",
                f"HTTP {rng.choice([400, 401, 403, 404, 408, 429, 500, 502, 503])}",
                f"{rng.choice(['timeout', 'timed out'])} after {rng.randint(1, 90)} s",
                v.sentence(rng),
                v.sentence(rng),
            ]
        )

    def failure(self, reason: str) -> tuple[str, Answer]:
        """A failed tool's result as text, and the answer to it."""
        rng = self.rng
        draw = rng.random()
        value: dict[str, Any]
        if draw < 0.5:
            value = {"error": reason}
        elif draw < 0.58:
            value = {"status": rng.choice(["error", "failed"]), rng.choice(["message", "reason"]): reason}
        elif draw < 0.66:
            value = {rng.choice(["ok", "success"]): False, rng.choice(["error", "reason", "message"]): reason}
        elif draw < 0.74:
            value = {"error": {"code": rng.choice([400, 404, 429, 500, 503]), "message": reason}}
        elif draw < 0.78:
            return rng.choice(["Error", "error", "failed"]), failed("")
        else:
            kind = rng.choice(["Error", "Error", "Error invoking tool", "ValueError", "KeyError", "Failed"])
            return f"{kind}: {reason}", failed(reason)
        return self.written(value), stated(value)

    def written(self, value: object) -> str:
        """``value`` as a tool's result: JSON in its usual forms, Python's notation, or bare text."""
        rng = self.rng
        draw = rng.random()
        if isinstance(value, str):
            return value if draw < 0.85 or not value or "\n" in value else to_json(value)
        if draw < 0.74:
            return to_json(value)
        if draw < 0.8:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if draw < 0.86:
            return json.dumps(value, ensure_ascii=False, indent=2)
        return json.dumps(value) if draw < 0.91 else str(value)

    def any(self, noun: str = "") -> tuple[str, Answer]:
        """A result of any shape as text, and the answer to it. ``noun`` may be one of its keys."""
        rng = self.rng
        draw = rng.random()
        value: object
        if draw < 0.1:
            return self.failure(self.reason())
        if draw < 0.17:
            fine = rng.choice(
                ['{"ok": true}', "ok", "done", '{"status": "ok"}', '"ok"', '{"success": true}', "true"]
            )
            return fine, ("Done.", ("Done.",))
        if draw < 0.21:
            empty = rng.choice(
                ["[]", "[]", "{}", "null", '{"results": []}', '{"items": []}', "None", '""', ""]
            )
            return empty, stated(None)
        if draw < 0.36:
            value = self.text()
        elif draw < 0.4:
            value = (
                int(self.vocabulary.integer(rng)) if rng.random() < 0.6 else round(rng.uniform(-99, 999), 2)
            )
        elif draw < 0.46:
            value = (
                self.scalars() if rng.random() < 0.7 else {rng.choice(["results", "items"]): self.scalars()}
            )
        elif draw < 0.56:
            value = (
                self.records() if rng.random() < 0.7 else {rng.choice(["results", "items"]): self.records()}
            )
        elif draw < 0.72:
            value = self.nested()
        else:
            value = self.record(rng.choice([1, 2, 2, 3, 3, 4, 5]))
            if noun and rng.random() < 0.4:
                value = {re.sub(r"\W+", "_", noun): self.scalar(), **value}
        return self.written(value), stated(value)
