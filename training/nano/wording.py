"""How requests are worded: the template grammar, politeness, and the entities that fill the slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from .options import LANGUAGES, option
from .politeness import (
    HELD_OUT_PREFIXES,
    HELD_OUT_SUFFIXES,
    POLITE_PREFIXES,
    POLITE_SUFFIXES,
    QUESTION_ENDINGS,
    QUESTION_OPENINGS,
)
from .rewording import reword
from .smalltalk import COUNTRIES
from .tools import Tool
from .vocabulary import Split, Vocabulary

CURRENCIES = (
    "euros dollars pounds francs yen rupees crowns pesos zloty lira dinars rand USD EUR GBP CHF JPY".split()
)
MEASURES = "miles kilometres km metres feet inches yards centimetres cm kilograms kg pounds ounces grams litres gallons pints celsius fahrenheit kelvin hours minutes seconds days acres hectares knots mph".split()
ROOMS = [
    "kitchen",
    "bathroom",
    "bedroom",
    "living room",
    "hall",
    "garage",
    "office",
    "cellar",
    "attic",
    "garden",
    "nursery",
    "dining room",
]
CUISINES = "Italian Thai Indian Mexican Greek Japanese Chinese vegan French Turkish Korean Lebanese Spanish Vietnamese".split()


def expand(rng: Random, line: str) -> str:
    """Choose one alternative of every ``[a|b]``, innermost first; spaces left by empty ones are removed."""
    while (match := re.search(r"\[([^\[\]]*)\]", line)) is not None:
        line = line[: match.start()] + rng.choice(match.group(1).split("|")) + line[match.end() :]
    return re.sub(r" +([,.?!:])", r"\1", re.sub(r" {2,}", " ", line)).strip()


_FREE_TEXT_END = re.compile(r"\{(prose|topic_prose|short|task)\}$")

_FREE_TEXT = frozenset(("prose", "topic_prose", "short", "task", "text"))
_ALTERNATIVES = {
    "mail_topic": ("mail_topic_only", "mail_topic", "person_topic", "bare_topic"),
    "topic": ("topic", "bare_topic"),
    "prose": ("prose", "topic_prose"),
    "id": ("id", "note_id", "mail_id"),
}


def alternatives_of(slot: str) -> tuple[str, ...]:
    """The slots of request lines that fill a parameter of ``slot``."""
    return _ALTERNATIVES.get(slot, (slot,))


def takes_free_text(tool: Tool) -> bool:
    """Whether a request for ``tool`` may end in text that goes on for as long as it likes."""
    return any(parameter.slot in _FREE_TEXT for parameter, _ in tool.parameters)


class Wording:
    """Words requests of one split; ``held_out`` chooses the lines that training never uses."""

    def __init__(self, rng: Random, vocabulary: Vocabulary, wording: Split, unknown_words: float) -> None:
        """``rng`` is shared with the rest of the author: the order of draws is part of the recipe.

        ``unknown_words`` is the share of requests that :func:`reword` changes.
        """
        self.rng = rng
        self.unknown_words = unknown_words
        self.vocabulary = vocabulary
        self.wording = wording
        v = self.vocabulary
        self._slots: dict[str, Callable[[Random], str]] = {
            "topic": v.topic,
            "mail_topic": lambda r: v.person(r) if r.random() < 0.25 else v.topic(r),
            "mail_topic_only": v.topic,
            "person_topic": v.person,
            "bare_topic": v.topic,
            "prose": self._request_prose,
            "topic_prose": v.topic,
            "date": v.date,
            "title": v.title,
            "unknown": v.invented,
            "time": v.time,
            "path": v.file_name,
            "city": v.city,
            "city2": v.city,
            "minutes": lambda r: str(r.randint(1, 120)),
            "noun": v.noun,
            "expression": v.expression,
            "person": v.person,
            "task": self._task,
            "short": self._short,
            "number": v.amount_plain,
            "currency": lambda r: r.choice(CURRENCIES),
            "currency2": lambda r: r.choice(CURRENCIES),
            "language": lambda r: r.choice(LANGUAGES),
            "room": lambda r: r.choice(ROOMS),
            "on_off": lambda r: r.choice(["on", "off"]),
            "degrees": lambda r: str(r.randint(5, 30)),
            "cuisine": lambda r: r.choice(CUISINES),
            "symbol": lambda r: (
                "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(r.randint(2, 5)))
                if r.random() < 0.6
                else v.invented(r).capitalize()
            ),
            "id": v.identifier,
            "note_id": lambda r: v.plain_identifier(r, "n"),
            "mail_id": lambda r: v.plain_identifier(r, "m"),
            "country": lambda r: r.choice(COUNTRIES),
            "adjective": lambda r: r.choice(v.adjectives),
            "integer": v.integer,
            "amount": v.amount,
            "text": self._short,
            "name": v.person,
            "word": v.noun,
            "number2": v.amount_plain,
            "sides": lambda r: str(r.choice([4, 6, 6, 8, 10, 12, 20, 100, r.randint(2, 60)])),
            "unit": lambda r: r.choice(MEASURES),
            "unit2": lambda r: r.choice(MEASURES),
            "address": v.address,
        }

    def ask(
        self,
        lines: tuple[str, ...],
        held_out: tuple[str, ...],
        *,
        given: Mapping[str, str] | None = None,
        mention: str = "",
        verbs_matter: bool = False,
    ) -> tuple[str, dict[str, str]]:
        """A worded request and its slot values, those of ``given`` as they are.

        ``mention`` is a line's end that names an optional parameter; after free text it is left out, and with it
        the value "option_name". Where ``verbs_matter``, no word of the line is replaced.
        """
        rng = self.rng
        line = rng.choice(held_out if self.wording == "held-out" and held_out else lines)
        values = dict(given or {})
        if _FREE_TEXT_END.search(line):
            values.pop("option_name", None)
        elif mention:
            line = f"{line[:-1]}{mention}?" if line.endswith("?") else line + mention
        line = expand(rng, line)
        question = line.endswith("?") and not line.endswith("= ?")
        if rng.random() < self.unknown_words and not verbs_matter:
            line = reword(rng, self.vocabulary, line)
            question = question and line.endswith("?")
        elif not question:
            line = self.polite(line)
        if rng.random() < 0.06:
            line = re.sub(r"(^|\})[^{]*", lambda match: match.group(0).lower(), line)
        elif rng.random() < 0.6 and not line.startswith("{"):
            line = line[0].upper() + line[1:]
        if question and rng.random() < 0.12:
            line = rng.choice(QUESTION_OPENINGS) + (
                line if line.startswith("{") or line.startswith("I") else line[0].lower() + line[1:]
            )
        if question and rng.random() < 0.06:
            line = line[:-1] + rng.choice(QUESTION_ENDINGS)
        elif question and rng.random() < 0.15:
            line = line[:-1]
        text = self.fill(line, values)
        # After free text an end mark could as well belong to it.
        if not question and text[-1] not in ".?!" and not _FREE_TEXT_END.search(line) and rng.random() < 0.5:
            text += (
                "?"
                if re.match(r"(?i)(hey |hello, |hi there, |hi, )?(can|could|would|will) you", text)
                and rng.random() < 0.8
                else rng.choice([".", ".", ".", ".", "!"])
            )
        return text, values

    def polite(self, line: str) -> str:
        """Wrap an imperative line in politeness, where that leaves its slots unambiguous."""
        rng = self.rng
        held_out = self.wording == "held-out" and rng.random() < 0.4
        if re.match(
            r"(I |I'|at |on |in |to |from |for |new |weather|notes|files|mails|documents|my |the |time in|any |and |"
            r"let's |there |it |we |when |a |an |packing |travelling |flying |off |temp |\{)",
            line,
        ):
            return line
        line = rng.choice(HELD_OUT_PREFIXES if held_out else POLITE_PREFIXES) + line
        if _FREE_TEXT_END.search(line):
            return line  # "…: buy milk for me" would leave open what the text is
        suffix = rng.choice(HELD_OUT_SUFFIXES if held_out else POLITE_SUFFIXES)
        clear = not line.endswith("}") or suffix.startswith(",")  # that the suffix is not part of the slot
        if clear or (not held_out and rng.random() < 0.25):
            line += suffix
        return line

    def fill(self, line: str, values: dict[str, str] | None = None) -> str:
        """``line`` with an entity in each slot; ``values`` collects them, and gives those it already has."""
        known = {} if values is None else values
        return re.sub(r"\{(\w+)\}", lambda match: self._fill(match.group(1), known), line)

    def arguments(self, tool: Tool, values: Mapping[str, str]) -> dict[str, Any]:
        """The arguments that call ``tool`` with the slot values of a request."""
        arguments: dict[str, Any] = {}
        for parameter, name in tool.parameters:
            slot = next(slot for slot in alternatives_of(parameter.slot) if slot in values)
            arguments[name] = self._typed(parameter.type, values[slot])
        if "option_name" in values:
            name = values["option_name"]
            arguments[name] = self._typed(option(name).type, values["option"])
        return arguments

    def entity(self, slot: str) -> str:
        """What may fill ``slot``."""
        return self._slots[slot](self.rng)

    def _fill(self, slot: str, values: dict[str, str]) -> str:
        rng = self.rng
        if slot in values:
            return values[slot]
        value = shown = values[slot] = self._slots[slot](rng)
        draw = rng.random()
        if slot in {
            "topic",
            "mail_topic",
            "mail_topic_only",
            "title",
            "prose",
            "path",
            "short",
            "noun",
            "topic_prose",
        }:
            quote = '"' if "'" in value or draw < 0.06 else "'"
            if draw < 0.1 and quote not in value:
                return f"{quote}{value}{quote}"
        if (
            slot in {"topic", "mail_topic", "mail_topic_only", "title"}
            and value[:1].islower()
            and not value.startswith("how ")
            and draw > 0.72
        ):
            shown = rng.choice(["the ", "the ", "the ", "my ", "our ", "a ", "this "]) + value
        if slot == "date" and re.match(r"\d+(st|nd|rd|th)", value) and draw < 0.85:
            shown = "the " + value
        return shown

    def _typed(self, kind: str, text: str) -> Any:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text) if "." in text else int(text)
        return text

    def _request_prose(self, rng: Random) -> str:
        if rng.random() < 0.35:
            return self._task(rng) + rng.choice(
                ["", "", f" {self.vocabulary.date(rng)}", f" at {self.vocabulary.time(rng)}"]
            )
        return self.vocabulary.prose(rng, 2).rstrip(".")

    def _task(self, rng: Random) -> str:
        verb = rng.choice(
            "buy call clean water pay return book order fix pack wash feed read send collect write".split()
        )
        return f"{verb} {rng.choice(['', 'the ', 'some ', 'my '])}{self.vocabulary.topic(rng) if rng.random() < 0.5 else self.vocabulary.noun(rng)}"

    def _short(self, rng: Random) -> str:
        text = self.vocabulary.sentence(rng) if rng.random() < 0.6 else self.vocabulary.topic(rng)
        return text.rstrip(".?!")
