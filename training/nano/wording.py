"""How requests are worded: their lines, politeness, unknown words, and the texts that fill the slots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from .grammar import capitalised, expand, lines, load, named, say
from .tools import ASKING_VERBS, OPTIONS, Tool
from .vocabulary import Split, Vocabulary

_REQUESTS: Final = load("requests")
_INVENTED: Final = load("tools")
# What people put before and after a request: in training, and held out.
_PREFIXES = [[""] * _REQUESTS["no_prefix"] + _REQUESTS["prefixes"], _REQUESTS["held_out_prefixes"]]
_SUFFIXES = [[""] * _REQUESTS["no_suffix"] + _REQUESTS["suffixes"], _REQUESTS["held_out_suffixes"]]
_OTHER_WORDS, _PARTICLES = _REQUESTS["other_words"].split(), _REQUESTS["particles"].split()
_REPLACEABLE = re.compile(rf"\b({'|'.join(_REQUESTS['replaceable_words'].split())})\b")
# Lines that nothing polite goes before.
_COMPLETE = re.compile(
    r"(I |I'|at |on |in |to |from |for |new |weather|notes|files|mails|documents|my |the |time in|any |and |"
    r"let's |there |it |we |when |a |an |packing |travelling |flying |off |temp |\{)"
)
_ASKING_YOU = re.compile(r"(?i)(hey |hello, |hi there, |hi, )?(can|could|would|will) you")
_FREE_TEXT_END = re.compile(r"\{(prose|topic_prose|short|task)\}$")
_FREE_TEXT = frozenset(("prose", "topic_prose", "short", "task", "text"))
_TOPICS = frozenset(("topic", "mail_topic", "mail_topic_only", "title"))
_QUOTED = _TOPICS | {"prose", "path", "short", "noun", "topic_prose"}
_LISTED = frozenset(("city", "path", "symbol", "id", "note_id", "mail_id", "person", "country", "date"))
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


def listed(tool: Tool) -> str | None:
    """The slot of the tool's one parameter, if two values named in one breath mean two calls.

    Two topics are one query.
    """
    slots = [parameter.slot for parameter, _ in tool.parameters]
    return slots[0] if len(slots) == 1 and slots[0] in _LISTED else None


def requests_to(tool: Tool, rng: Random) -> tuple[Sequence[str], Sequence[str]]:
    """Lines that fill every parameter of an invented ``tool``: those of training, and the held-out ones."""
    names = {"verb": tool.verb, "noun": tool.noun, "tool": tool.name, "joins": _INVENTED["joins"]}
    asks = tool.verb in ASKING_VERBS
    if not tool.parameters:
        bare = _INVENTED["bare_acting"] + (_INVENTED["bare_asking"] if asks else "")
        return lines(named(bare, names)), lines(named(_INVENTED["bare_held_out"], names))
    slots = [("{" + parameter.slot + "}", name.replace("_", " ")) for parameter, name in tool.parameters]
    first, shown = slots[0]
    names |= {"first": first, "shown": shown, "named": f"{shown} {first}"}
    line = named(rng.choice(lines(_INVENTED["acting"] + (_INVENTED["asking"] if asks else ""))), names)
    rest = ""
    for slot, name in slots[1:]:
        joiner = " and " if rest else rng.choice([" and ", ", ", " with "])
        rest += joiner + name + rng.choice([" ", " ", " ", ": ", " is "]) + slot
    end = "?" if line.endswith("?") else ""
    held_out = lines(named(_INVENTED["held_out"], names))
    return (line.rstrip("?") + rest + end,), tuple(each + rest for each in held_out)


def _unknown(rng: Random, vocabulary: Vocabulary) -> str:
    return rng.choice(_OTHER_WORDS) if rng.random() < 0.5 else vocabulary.invented(rng)


def reword(rng: Random, vocabulary: Vocabulary, line: str) -> str:
    """Put an unknown word, at times with a particle, in the place of one that the meaning does not hang on.

    Or put one or two before everything, or after it behind a comma. People ask in more ways than any list
    holds: an unknown verb beside "notes" still means the notes, so the models must not lean on any one verb.
    """
    word = _unknown(rng, vocabulary)
    draw = rng.random()
    places = list(_REPLACEABLE.finditer(line))
    if places and draw < 0.7:
        place = rng.choice(places)
        if rng.random() < 0.3:
            word += f" {rng.choice(_PARTICLES)}"
        return line[: place.start()] + word + line[place.end() :]
    if rng.random() < 0.4:
        word += f" {_unknown(rng, vocabulary)}"
    if draw < 0.9 or line.rstrip("?").endswith("}"):
        return f"{word}{rng.choice([', ', ' ', ': '])}{line}"
    return f"{line.rstrip('?')}, {word}{'?' if line.endswith('?') else ''}"


class Wording:
    """Words requests of one split; ``wording`` chooses training's lines or the held-out ones."""

    def __init__(self, rng: Random, vocabulary: Vocabulary, wording: Split, unknown_words: float) -> None:
        """``rng`` is shared with the rest of the author: the order of draws is part of the recipe.

        ``unknown_words`` is the share of requests that :func:`reword` changes.
        """
        self.rng = rng
        self.unknown_words = unknown_words
        self.vocabulary = vocabulary
        self.wording = wording

    def ask(
        self,
        lines: Sequence[str],
        held_out: Sequence[str],
        *,
        given: Mapping[str, str] | None = None,
        mention: str = "",
        verbs_matter: bool = False,
    ) -> tuple[str, dict[str, str]]:
        """A worded request and its slot values, those of ``given`` as they are.

        ``mention`` is a line's end that names an optional parameter; after free text it is left out, and with
        it the value "option_name". Where ``verbs_matter``, no word of the line is replaced.
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
            line = capitalised(line)
        if question:
            line = self._asked(line)
        text = self.fill(line, values)
        # After free text an end mark could as well belong to it.
        if not question and text[-1] not in ".?!" and not _FREE_TEXT_END.search(line) and rng.random() < 0.5:
            asks = _ASKING_YOU.match(text) and rng.random() < 0.8
            text += "?" if asks else rng.choice([".", ".", ".", ".", "!"])
        return text, values

    def _asked(self, line: str) -> str:
        """A question with an opening and another end, at times."""
        rng = self.rng
        if rng.random() < 0.12:
            rest = line if line.startswith(("{", "I")) else line[0].lower() + line[1:]
            line = rng.choice(_REQUESTS["question_openings"]) + rest
        if rng.random() < 0.06:
            return line[:-1] + str(rng.choice(_REQUESTS["question_endings"]))
        return line[:-1] if rng.random() < 0.15 else line

    def polite(self, line: str) -> str:
        """Wrap an imperative line in politeness, where that leaves its slots unambiguous."""
        rng = self.rng
        held_out = self.wording == "held-out" and rng.random() < 0.4
        if _COMPLETE.match(line):
            return line
        line = rng.choice(_PREFIXES[held_out]) + line
        if _FREE_TEXT_END.search(line):
            return line  # "…: buy milk for me" would leave open what the text is
        suffix = rng.choice(_SUFFIXES[held_out])
        clear = not line.endswith("}") or suffix.startswith(",")  # that the suffix is not part of the slot
        if clear or (not held_out and rng.random() < 0.25):
            line += suffix
        return line

    def fill(self, line: str, values: dict[str, str] | None = None) -> str:
        """``line`` with a text in each slot; ``values`` collects them, and gives those it already has."""
        known = {} if values is None else values
        return say(self.rng, line, lambda slot: self._fill(slot, known))

    def arguments(self, tool: Tool, values: Mapping[str, str]) -> dict[str, Any]:
        """The arguments that call ``tool`` with the slot values of a request."""
        arguments: dict[str, Any] = {}
        for parameter, name in tool.parameters:
            slot = next(slot for slot in alternatives_of(parameter.slot) if slot in values)
            arguments[name] = _typed(parameter.type, values[slot])
        if "option_name" in values:
            name = values["option_name"]
            arguments[name] = _typed(OPTIONS[name].type, values["option"])
        return arguments

    def _fill(self, slot: str, values: dict[str, str]) -> str:
        rng = self.rng
        if slot in values:
            return values[slot]
        value = values[slot] = self.vocabulary.draw(rng, slot)
        draw = rng.random()
        if slot in _QUOTED:
            quote = '"' if "'" in value or draw < 0.06 else "'"
            if draw < 0.1 and quote not in value:
                return f"{quote}{value}{quote}"
        if slot in _TOPICS and value[:1].islower() and not value.startswith("how ") and draw > 0.72:
            return str(rng.choice(["the ", "the ", "the ", "my ", "our ", "a ", "this "])) + value
        if slot == "date" and re.match(r"\d+(st|nd|rd|th)", value) and draw < 0.85:
            return "the " + value
        return value


def _typed(kind: str, text: str) -> Any:
    if kind == "integer" or (kind == "number" and "." not in text):
        return int(text)
    return float(text) if kind == "number" else text
