"""Checks of an answer before it is shown: the deeds that it claims, and whether it stands in what was found.

Patterns of English sentences. What they let through need not be true.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_DEED_VERBS: Final = (
    "send|sent|email|emailed|forward|forwarded|reply|replied|delete|deleted|remove|removed|erase|erased|cancel|"
    "cancell?ed|move|moved|reschedule|rescheduled|postpone|postponed|rename|renamed|book|booked|reserve|reserved|order|ordered|buy|"
    "bought|pay|paid|call|called|phone|phoned|remind|reminded|schedule|scheduled|contact|contacted|notify|notified"
)
_MAKING_VERBS: Final = (
    "write|wrote|written|save|saved|create|created|note|noted|add|added|make|made|set|put|change|changed|update|"
    "updated|edit|edited|clear|cleared|turn|turned"
)
"""A deed if one of :data:`_THINGS` follows: an answer may well write a poem."""
_THINGS: Final = (
    "(?:notes?|events?|calendar|mails?|e-?mails?|messages?|reminders?|alarms?|timers?|appointments?|meetings?|"
    "lists?|files?|it|that|this|them|lights?|tasks?|invitations?|inbox|entry)"
)
_LOOKING_VERBS: Final = (
    "check|checked|look|looked|search|searched|read|open|opened|fetch|fetched|retrieve|retrieved"
)
_ADVERBS: Final = r"(?:(?:just|now|also|already|successfully|gladly|then|go ahead and|go and) )*"
_AUXILIARIES: Final = "(?:'ve|'ll|'m| have| will| shall| am)?(?: going to| about to)?"
_I: Final = rf"\b(?:I{_AUXILIARIES}|let me|we(?:'ve|'ll| have| will)?) {_ADVERBS}"
_DEED: Final = re.compile(
    rf"{_I}(?:(?:{_DEED_VERBS})(?:ing)?\b|(?:{_MAKING_VERBS})\b[^.!?]*?\b{_THINGS}\b)"
    rf"|\b{_THINGS}\b[^.!?]*? (?:(?:has|have) been|(?:is|are|was|were) (?:now |successfully )) ?{_ADVERBS}"
    rf"(?:{_DEED_VERBS}|{_MAKING_VERBS})\b|^(?:(?:all )?done|{_ADVERBS}(?:sent|saved|added|deleted|moved"
    rf"|booked|scheduled|created|cancell?ed|noted|rescheduled|postponed|reminded|called|ordered|paid"
    rf"|removed))\b|\b(?:reminder|alarm|timer|appointment|meeting|event|note) (?:is |was )?{_ADVERBS}(?:set"
    rf"|added|saved|created|scheduled)\b",
    re.IGNORECASE,
)
_LOOKING: Final = re.compile(rf"{_I}(?:{_LOOKING_VERBS})\b", re.IGNORECASE)
_NEGATED: Final = re.compile(
    r"\b(?:not|n't|cannot|never|unable|no|nothing|if|would|could|can)\b|n't\b", re.IGNORECASE
)
_DONE_BY: Final = {
    "create_note": re.compile(r"note|sav|creat|writ|wrote|add|made|done|it\b", re.IGNORECASE),
    "add_event": re.compile(
        r"event|calendar|add|schedul|creat|sav|put|set|done|appointment|meeting", re.IGNORECASE
    ),
    "delete_note": re.compile(r"note|delet|remov|eras|done|it\b", re.IGNORECASE),
    "delete_event": re.compile(r"cancel|delet|remov|eras|done", re.IGNORECASE),
    "move_event": re.compile(r"mov|schedul|postpon|chang|done", re.IGNORECASE),
}
"""The deeds that a tool does."""
_NUMBER: Final = re.compile(r"\d+(?:[.:,]\d+)*")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_STEM_LETTERS: Final = 5
_COMMON_WORDS: Final = frozenset(
    """
    the and for are was were has have had you your his her its their this that these those there with from
    about into says said say mail note file text user not but who what when where which will would can also
    all any
    """.split()  # noqa: SIM905
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')*]*\s+|\n+")
_CALL: Final = re.compile(r"\s*(?:```\w*\s*)?[{\[<]\s*\"?(?:name|tool|function)")
_SAME_PART: Final = re.compile(r"(.{3,40}?)\1{5,}")
_LOOP: Final = 3


def claims_deed(sentence: str, done: Collection[str], *, looked: bool) -> bool:
    """Return whether ``sentence`` reports or promises a deed that none of the tools ``done`` does.

    ``looked`` says whether something was looked up for this answer.
    """
    if _NEGATED.search(sentence):
        return False
    if not looked and _LOOKING.search(sentence):
        return True
    return bool(_DEED.search(sentence)) and not any(
        _DONE_BY[name].search(sentence) for name in done if name in _DONE_BY
    )


def is_grounded(sentence: str, known: str) -> bool:
    """Return whether the text ``known`` has the numbers and names of ``sentence``, and most other words."""
    numbers = {_canonical(each) for each in _NUMBER.findall(known)}
    if any(_canonical(each) not in numbers for each in _NUMBER.findall(sentence)):
        return False
    stems = {_stem(word) for word in _WORD.findall(known)}
    words = _WORD.findall(sentence)
    unknown = [word for word in words if _stem(word) not in stems and word.casefold() not in _COMMON_WORDS]
    names = any(word[0].isupper() for word in unknown if not sentence.lstrip().startswith(word))
    return not names and len(unknown) * 4 <= len(words)


def mixes_facts(sentence: str, found: str) -> bool:
    """Return whether ``sentence`` says of a number what stands in ``found`` of something else only.

    "The guest password is a-1" mixes "Password: a-1" and "Guests: password b-2": both are known, the pair
    is not. A word in the title of what was found may stand with every number.
    """
    numbers = {_canonical(each) for each in _NUMBER.findall(sentence)}
    if not numbers:
        return False
    title = found.partition(":")[0]
    parts = [part for part in _SENTENCE_END.split(found) if part.strip()]
    with_number = [part for part in parts if numbers & {_canonical(each) for each in _NUMBER.findall(part)}]
    near, known = (
        {_stem(word) for part in some for word in _WORD.findall(part)} for some in (with_number, parts)
    )
    said = {_stem(word) for word in _WORD.findall(sentence) if word.casefold() not in _COMMON_WORDS}
    return bool((said & known) - near - {_stem(word) for word in _WORD.findall(title)})


def _stem(word: str) -> str:
    return word.casefold()[:_STEM_LETTERS]


def _canonical(number: str) -> str:
    return re.sub(r"^0+(?=\d)", "", number).removesuffix(":00")


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` with what separates them; joined they are the text."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True) if begin < end]


def is_call(text: str) -> bool:
    """Return whether ``text`` begins like a call in JSON, which is no answer."""
    return _CALL.match(text) is not None


class LoopDetector:
    """Tells when a text says the same again and again."""

    def __init__(self) -> None:
        """Nothing was said."""
        self._said: dict[str, int] = {}

    def is_loop(self, sentence: str) -> bool:
        """Return whether ``sentence`` was said several times, or repeats a part of itself many times."""
        key = " ".join(sentence.casefold().split())
        self._said[key] = self._said.get(key, 0) + 1
        return bool(key) and (self._said[key] >= _LOOP or _SAME_PART.search(key) is not None)
