"""What a search returns: hits in many shapes, what to read of them, and the answer that names them."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from .answers import to_json
from .shapes import Shapes
from .vocabulary import Drawing, Vocabulary

WHAT = {"search_notes": "notes", "search_mail": "mail", "search_files": "files"}
"""What each family that searches finds."""
THING = {"search_notes": "note", "search_mail": "mail", "search_files": "file"}
"""One of them."""

_ID_KEYS = {"search_notes": "note_id", "search_mail": "mail_id", "search_files": "file"}
_TITLE_KEYS = {
    "search_notes": ("name", "heading"),
    "search_mail": ("title", "topic"),
    "search_files": ("title",),
}


class Findings(NamedTuple):
    """A search's result as text, the ids or paths in it, and the answer with its facts."""

    result: str
    targets: tuple[str, ...]
    answer: str
    facts: tuple[str, ...]


class Searches(Drawing):
    """Draws what searches find."""

    def __init__(self, rng: Random, vocabulary: Vocabulary, shapes: Shapes) -> None:
        super().__init__(rng, vocabulary)
        self.shapes = shapes

    def nothing(self, key: str, query: str) -> Findings:
        """An empty result of the family ``key``."""
        what = WHAT[key]
        empty = [
            "[]",
            "[]",
            to_json({what: []}),
            to_json({"results": []}),
            to_json({"count": 0, "results": []}),
        ]
        return Findings(self.rng.choice(empty), (), f"I found no {what} about {query}.", (query,))

    def hits(self, key: str, query: str, count: int) -> Findings:
        """``count`` hits of the family ``key``."""
        rng = self.rng
        hits = [self._hit(key, query) for _ in range(count)]
        if key == "search_mail":
            shown = [f'"{hit["subject"]}" from {hit["from"]}' for hit in hits]
            facts = tuple(fact for hit in hits for fact in (hit["subject"], hit["from"]))
        else:
            shown = [hit["path" if key == "search_files" else "title"] for hit in hits]
            facts = tuple(shown)
        targets = tuple(hit["path" if key == "search_files" else "id"] for hit in hits)
        what = WHAT[key]
        answer = f"{what.capitalize()} I found: {'; '.join(shown)}."
        rows = self._varied(key, hits) if rng.random() < 0.3 else hits
        draw = rng.random()
        listing: Any = rows
        if draw > 0.94:
            listing = rng.choice(
                [{"count": count, "results": rows}, {"data": {"items": rows}}, {"ok": True, what: rows}]
            )
        elif draw > 0.78:
            listing = {rng.choice([what, "results", "hits", "items", "matches"]): rows}
        result = to_json(listing) if rng.random() < 0.9 else self.shapes.written(listing)
        return Findings(result, targets, answer, facts)

    def _hit(self, key: str, query: str) -> dict[str, str]:
        rng, v = self.rng, self.vocabulary
        if key == "search_files":
            return {"path": v.path(rng)}
        title = query if rng.random() < 0.25 else v.title(rng)
        letter = "n" if key == "search_notes" else "m"
        identifier = v.identifier(rng, letter if rng.random() < 0.7 else "")
        if key == "search_notes":
            return {"id": identifier, "title": title}
        return {"id": identifier, "from": v.draw(rng, "person"), "subject": title}

    def _varied(self, key: str, hits: list[dict[str, str]]) -> list[dict[str, Any]]:
        """The same hits under other keys, or with more in them."""
        rng, v = self.rng, self.vocabulary
        renamed: dict[str, str] = {}
        if rng.random() < 0.4:
            renamed["path" if key == "search_files" else "id"] = rng.choice(
                [_ID_KEYS[key], "key", "ref", "uid"]
            )
        if rng.random() < 0.3:
            renamed["subject" if key == "search_mail" else "title"] = rng.choice(_TITLE_KEYS[key])
        rows: list[dict[str, Any]] = [
            {renamed.get(name, name): value for name, value in hit.items()} for hit in hits
        ]
        more = rng.random()
        for row in rows:
            if more < 0.2:
                row["score"] = round(rng.random(), 2)
            elif more < 0.4:
                row["date"] = v.draw(rng, "timestamp")
            elif more < 0.55:
                row["snippet"] = v.sentence(rng)
            elif more < 0.62:
                row["size"] = rng.randint(1, 99999)
        return rows
