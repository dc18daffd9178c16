"""Tools' results of any shape: JSON values and texts, written as tools do, each with its answer."""

from __future__ import annotations

import json
import re
from typing import Any

from .answers import Answer, failed, shown, stated, to_json
from .vocabulary import Drawing

# What a string is, each with the bound of the draw: numbers are drawn between, truth values above.
_TEXTS = (
    (0.1, "identifier"),
    (0.28, "topic"),
    (0.4, "noun"),
    (0.7, "person"),
    (0.74, "city"),
    (0.82, "sentence"),
    (0.87, "measure"),
    (0.92, "any_time"),
    (0.945, "any_place"),
)


class Shapes(Drawing):
    """Draws values."""

    def key(self) -> str:
        """A key of an object: usual ones, nouns, two of them in the many ways of joining."""
        rng, v = self.rng, self.vocabulary
        draw = rng.random()
        if draw < 0.45:
            return v.draw(rng, "value_key")
        first = re.sub(r"\W+", "_", v.noun(rng)).lower()
        if draw < 0.75:
            return first
        second = v.draw(rng, "value_key") if rng.random() < 0.6 else v.noun(rng).lower()
        second = re.sub(r"\W+", "_", second)
        return f"{first}_{second}" if draw < 0.93 else first + second[:1].upper() + second[1:]

    def scalar(self) -> object:
        """A string, a number, a truth value or null."""
        rng = self.rng
        kind = rng.random()
        if 0.4 <= kind < 0.56:
            return self._integer() * rng.choice([1, 1, 1, 1, -1])
        if 0.56 <= kind < 0.64:
            return float(f"{rng.randint(0, 999)}.{rng.randint(1, 99)}") * rng.choice([1, 1, 1, -1])
        if kind >= 0.945:
            return rng.choice([True, False, True, False, None, ""])
        return self.vocabulary.draw(rng, next(entry for bound, entry in _TEXTS if kind < bound))

    def _integer(self) -> int:
        return int(self.vocabulary.draw(self.rng, "integer"))

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
        rng = self.rng
        entry = rng.choice(("title", "noun", "person", "identifier", "city", "sentence", "measure", "time"))
        if rng.random() < 0.15:
            return [self._integer() for _ in range(rng.randint(1, 4))]
        return [self.vocabulary.draw(rng, entry) for _ in range(rng.randint(1, 4))]

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
        if draw < 0.62:
            return v.draw(rng, "measured_noun" if draw < 0.5 else "short_text")
        count = rng.randint(2, 4)
        if 0.72 <= draw < 0.82:
            return "\n".join(f"{self.key()}: {shown(self.scalar())}" for _ in range(count))
        if draw >= 0.95:
            return "\n".join(f"{number}. {v.title(rng)}" for number in range(1, count + 1))
        entry = "bullet" if draw < 0.72 else "sentence" if draw < 0.9 else "counted_noun"
        return (", " if draw >= 0.9 else "\n").join(v.draw(rng, entry) for _ in range(count))

    def reason(self, thing: str = "") -> str:
        """What went wrong, in a tool's words."""
        rng, v = self.rng, self.vocabulary
        return v.draw(rng, "reason", thing=thing or v.draw(rng, "failed_thing"))

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
            value = self._integer() if rng.random() < 0.6 else round(rng.uniform(-99, 999), 2)
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
