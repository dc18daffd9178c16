"""The sentences of a message, and what each does: it asks, names a thing, tells something, or chats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, TypeAlias

from . import phrases
from .changes import BEGINS, POINTS_BACK, TAKES_OUT
from .dictation import dictated_note
from .needs import needs_of_words
from .retrieval import TextKind, content_words
from .when import is_dated, times_in, without
from .writes import ASKED

Kind: TypeAlias = Literal["asks", "names", "tells", "chats"]
_SOURCES: Final[Mapping[TextKind, re.Pattern[str]]] = {
    "mail": phrases.MAIL, "notes": phrases.NOTES, "files": phrases.FILES
}  # fmt: skip
_TOLD_OF: Final = phrases.any_case(r"(?:that|this|it|those|these|they)(?:'s| is|'re| are)\b")
_VERBS: Final = (
    "cancel", "delete", "postpone", "remove", "reschedule", "schedule", "search", "throw", "write"
)  # fmt: skip
"""Which are read at the beginning of a message, too, where two letters are swapped or one is missing."""
_FIRST_WORD: Final = phrases.any_case(rf"^(\W*{phrases.POLITE})([a-z]{{2,}})\b")
_SWAPPED: Final = {
    f"{word[:place]}{word[place + 1]}{word[place]}{word[place + 2 :]}": word
    for word in ("and", "have", "that", "the", "this", "what", "when", "where", "which")
    for place in range(len(word) - 1)
}
"""Short words whose letters are swapped, as "teh", in a question that begins with one."""
_WORDS: Final = re.compile(r"\b[A-Za-z]+\b")
_TERSE: Final = 6
"""Words of a sentence that may ask without a question word: "cabin wifi password"."""


@dataclass(frozen=True)
class Sentence:
    """A part of a message."""

    text: str
    kind: Kind
    """It "names" a thing that may be asked for, as "cabin wifi password" does."""
    is_long: bool = False
    follows_chat: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether it names a thing in many words or behind small talk: only what is surely found is meant."""
        return self.kind == "names" and (self.is_long or self.follows_chat)


def sentences_in(message: str, today: date) -> list[Sentence]:
    """Return the sentences of ``message``, which :func:`plain` has put shortly."""
    parts = _parts_of(message, today)
    found: list[Sentence] = []
    for place, part in enumerate(parts):
        kind = _kind_of(part)
        behind = parts[place + 1 :]
        points_back = any(map(POINTS_BACK.match, behind)) or any(map(_TOLD_OF.match, behind[:1]))
        if points_back and not (part.endswith("?") or phrases.REQUEST.match(part)):
            kind = "tells"  # what the sentence behind it is about
        chatted = phrases.INTERJECTION.match(part) or any(each.kind == "chats" for each in found)
        is_long = len(part.split()) > _TERSE and not (
            ASKED.search(part) or phrases.CALENDAR.search(part) or kinds_in(part)
        )
        found.append(Sentence(part, kind, is_long, bool(chatted)))
    return found


def plain(message: str) -> str:
    """Return ``message`` without what makes it a letter, and its requests as they are put shortly."""
    first = _WORDS.search(message)
    if first and _SWAPPED.get(first[0].casefold(), "").startswith("w"):  # a question, which writes nothing
        message = _WORDS.sub(lambda word: _SWAPPED.get(word[0].casefold(), word[0]), message)
    message = _FIRST_WORD.sub(_spelt, phrases.LETTER.sub("", phrases.LETTER.sub("", message)))
    return phrases.AFORESAID.sub("it", phrases.COURTESY.sub(_courtesy, phrases.COUNTED.sub("", message)))


def kinds_in(text: str) -> list[TextKind]:
    """Return the kinds of texts that ``text`` names."""
    return [kind for kind, pattern in _SOURCES.items() if pattern.search(text)]


def _spelt(found: re.Match[str]) -> str:
    """Return the first word of a request as it is spelt: "cancle", "delte"."""
    word = found[2].casefold()
    if word == "ad" and re.search(phrases.CALENDARS, found.string):
        return f"{found[1]}add"
    for verb in _VERBS:
        shorter = [verb[:place] + verb[place + 1 :] for place in range(1, len(verb))]
        if verb[0] == word[0] and (sorted(verb) == sorted(word) or word in shorter):
            return found[1] + verb
    return found[0]


def _courtesy(found: re.Match[str]) -> str:
    """Return a request as it would be put shortly."""
    verb = found["verb"]
    return ", please" if found["if"] else f"please {phrases.PRESENT.get(verb.casefold(), verb)}"


def _kind_of(part: str) -> Kind:
    rest = phrases.INTERJECTION.sub("", part)
    if not re.search(r"\w", rest) or phrases.CHAT.match(part) or phrases.CHAT.match(rest):
        return "chats"
    if phrases.GENERAL.match(rest):
        return "chats"
    if phrases.ELIDED.match(rest):
        return "tells"
    if (
        rest.endswith("?")
        or any(pattern.search(rest) for pattern in (phrases.REQUEST, TAKES_OUT, phrases.WISH))
        or any(map(needs_of_words, [part, *part.split(", ")]))
        or dictated_note(part)
    ):
        return "asks"
    return "tells" if phrases.STATEMENT.match(rest) and not phrases.NAMED.match(rest) else "names"


def _parts_of(message: str, today: date) -> list[str]:
    """Return the parts of ``message``. A note that is dictated has all that is no request of its own."""
    ends = [(end.start(), end.end()) for end in phrases.REQUEST_ENDS.finditer(message)]
    begins = [0, *(end for _, end in ends)]
    parts = [
        phrases.ENUMERATED.sub("", message[begin:end].strip())
        for begin, end in zip(begins, [*(begin for begin, _ in ends), len(message)], strict=True)
    ]
    if dictated_note(parts[0]):
        rest = [place for place, part in enumerate(parts) if place and phrases.REQUEST.match(part)]
        first = rest[0] if rest and "\n" not in message else len(parts)
        if ":" in parts[0]:  # up to the end of the sentence, or to a question
            rest = [
                place
                for place in rest
                if parts[place].endswith("?") or re.match(r"[.!?;\n]", message[ends[place - 1][0] - 1 :])
            ]
            first = rest[0] if rest and "\n" not in message else len(parts)
        note = message[: ends[first - 1][0]] if first < len(parts) else message
        parts = [note.strip(), *parts[first:]]
    else:
        parts = [piece for part in parts for piece in BEGINS.split(part)]
    parts = _with_their_times(parts, today)
    found: list[str] = []
    source = ""
    for part in (phrases.LEAD_IN.sub("", part) for part in parts if re.search(r"\w", part)):
        if kinds_in(part) and not (content_words(part) or part.endswith("?") or phrases.REQUEST.match(part)):
            source = f"{part.rstrip(' ,.')}, "  # "in my files, what …"
        else:
            found.append(source + part)
            source = ""
    return [*found, *([source] if source else [])]


def _with_their_times(parts: Sequence[str], today: date) -> list[str]:
    """Return ``parts``; one that is a time of day alone, or corrects one, belongs to the part before it."""
    found: list[str] = []
    for part in parts:
        times = times_in(part)
        corrects = (
            found and phrases.CORRECTS.match(part) and is_dated(part, today) and is_dated(found[-1], today)
        )
        alone = times and not re.search(r"\w", without(part, times))
        if found and (corrects or alone) and not found[-1].endswith("?"):
            found[-1] = f"{found[-1].rstrip(' .')}, {part}"
        else:
            found.append(part)
    return found


def is_request(text: str) -> bool:
    """Return whether ``text`` surely asks for something."""
    is_about = content_words(text) or phrases.PERSON.search(text)
    return bool(is_about) and (text.endswith("?") or phrases.REQUEST.match(text) is not None)
