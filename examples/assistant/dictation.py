"""Notes that a message asks for, in its own words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .phrases import POLITE, REQUEST, any_case
from .retrieval import content_words
from .writes import ASKED, is_held_back

WHICH_TEXT: Final = "What should the note say?"
_DICTATED: Final = any_case(
    rf"(?s)^{POLITE}(?:(?:write|make|create|save|take|add|jot|leave|keep|set|put|scribble"
    rf"|(?:i )?need)(?: for)?(?: me| us| yourself| myself)?(?: down)?(?: an?| another)?(?: (?!the |my |that "
    rf"|this |his |her |down )[\w-]+)? note(?: for me)?(?: to self)?|(?:i would like )?that you keep for me "
    rf"a note|(?:write|jot|note|scribble)(?: this| something)? down(?: for me)?|(?:a "
    rf"|one )(?:new )?note(?: for me)?(?=:)|(?:new )?note(?: to self)?|(?:take |make |a |quick |new |short "
    rf"|another )*memo(?: before i (?:lose|forget) it)?(?=[:,])|(?:write|make|add|create"
    rf"|start)(?: me)? (?:(?:a )?(?:new )?one|another)(?= saying| that says|:)|remember|(?:save|keep"
    rf"|remember) this(?: for me)?(?=[:,])|save this|note (?:it|this) down(?: for me)?(?=:)|(?:write|jot"
    rf"|scribble) down for me(?=[:,])|(?:start|open)(?: me)? a(?: new)? note(?: for"
    r" [\w ]{1,30})?(?=:)|(?:keep|save|put|write|record) this (?:in|as|into) (?:an?"
    r"|my) notes?(?: for me)?(?=[:,])|memo(?=[:,])|jot(?: this)?(?=:)|(?:record|save|put|write)(?: this"
    r"| me)? (?:in|into) (?:my|the) notes|mind keeping a note)\b(?: (?:that says|that|saying|with(?= the\b)"
    r"|(?:called|named|titled)(?= )|about|of)(?= )(?: this(?=:))?)? *[:,\u2013-]? *(.*)$"
)
_ANOTHER: Final = any_case(rf"(?s)^{POLITE}(?:another|one more)(?: one| note)?[.:,] *(\S.+)$")
_POINTED: Final = any_case(
    rf"^{POLITE}(?:great|perfect|nice|good|cool|phew|i see)?[,.! ]*{POLITE}(?:write|note|jot|save|keep|put"
    rf"|copy|stick|pop|drop) "
    r"(?:(?:it|that|this|those|these|them|both)(?: \w+){0,2}|(?:the|his|her|their|what"
    r"|all)(?: [\w'\u2019]+){1,8}) (?:down|(?:as|in|into|to) (?:an?|my)(?: \w+)? notes?)\b"
)
_NOTE_IT: Final = any_case(rf"^{POLITE}note (?:it|that|this)(?: please| pls)?\W*$")
_THINGS: Final = any_case(
    rf"^{POLITE}(?:write|note|jot|save|keep|put|copy|stick|pop|drop) ((?:[\w'\u2019]+ ){{1,6}})(?:in|into"
    rf"|to) a(?: \w+)? note\b"
)
"""A request for a note of things that are named."""
_DETERMINED: Final = any_case(
    r"^(?:(?:about|with|having|of) )?(?:the|that|his|her|their|these|those|both"
    r"|all)(?: [\w'\u2019,]+){1,14}\W*$"
)
_VERB: Final = any_case(
    r"\b(?:is|are|was|were|has|had|comes?|goes|needs?|wants?|will|must|should|likes?|starts?|ends?|costs?)\b"
)
"""In a sentence, which is dictated; things that are named have none."""
_WHAT_WAS_SAID: Final = any_case(
    rf"^{POLITE}(?:write|note|jot)(?: down)? (?:what (?:he|she|they|it|you|that)(?: \w+)? (?:wrote|said|says)"
    r"|(?:the|his|her|their|those|all)(?: [\w'\u2019]+){1,3})\W*$"
)
_AS_A_NOTE: Final = r"(?:as|in|into|to|with|among) (?:an?|my|the)(?: \w+)? notes?"
_LABELLED: Final = any_case(
    rf"(?s)^[^:?\n]{{0,60}}[,;] *{POLITE}(?:note|write|jot|keep) (?:it|this|that)(?: down)?(?: for me)?: *"
    r"(.+)$"
    rf"|^\W*(?!.*\b(?:what|which|who|read|find|show|search|look|delete|remove|does|says?)\b.*:)"
    r"[^:?\n]{0,60}\b(?:(?:as|for|in|into|on|to|with) (?:an?|my|the)(?: \w+)? (?:note|memo)s?"
    r"|somewhere safe)(?: for me)?\b[^:?\n]{0,40}(?:: *| [-\u2013] )(.+)$"
)
"""What is to be noted, behind what it is: "I need those words kept as a note: hull, keel"."""
_NOTED: Final = any_case(
    rf"(?s)^(.{{8,}}?)[,;.] *(?:and |so )?{POLITE}(?:note (?:it|that|this)"
    r"|make an? note(?: of (?:it|that|this))?"
    rf"|(?:write|note|jot|save|keep|put) (?:it|that|this)(?: (?!down\b)\w+){{0,2}} (?:down|somewhere|safe"
    rf"|{_AS_A_NOTE}))(?: somewhere)?(?: for me)?(?:,? please|,? pls)?(?:\W*|, (?:i|we|as|so)\b[^,;?]*)$"
)
_AS_NOTE: Final = any_case(
    rf"(?s)^{POLITE}(?:save|keep|store|record|put|write)(?: down)? (?!(?:it|that|this|those|these"
    rf"|the answer)\b)(.{{4,}}?),? {_AS_A_NOTE}(?: for me)?(?:,? please|,? pls)?\W*$"
)
"""A request around what is to be noted: "save the size, 38, as a note"."""
_HAS_CONTENT: Final = re.compile(r"[\d:\"\u201c\u2018]|(?<!\w)'\w")
"""In what is to be noted as it is: "the phone number" points at one that was found."""
_FEWEST_WORDS: Final = 4
"""Of what is told and then to be noted: "ok thanks, write it down" tells nothing."""
_SAID_BEHIND: Final = re.compile(r":\s+\w")
_SAYS_WHAT: Final = any_case(r"\b(?:note|memo|down)(?: for me)? (?:that(?! down)|saying)\b|\bsays?\b")
"""In a request for a note whose text it has."""
_MUST_KNOW: Final = any_case(
    r"^i (?:(?:must(?:n't| not)|should(?:n't| not)|do(?:n't| not) want to) forget|(?:must|have to) remember)"
    r"(?: that)? "
)
_POINTING: Final = any_case(
    r"^(?:it|this|that|these|those|them|please|pls|somewhere|something|anything|before|i|forget|there|here"
    r"|of|for|me|us|thanks|down|\W)*$"
)


def another_note(message: str) -> str | None:
    """Return the text of a note that ``message`` dictates after another: "Another: …"; else None."""
    found = _ANOTHER.match(message)
    return found and found[1]


def dictated_note(message: str) -> str | None:
    """Return the text of a note that ``message`` dictates, to the letter; what it lacks is empty.

    None if it dictates none.
    """
    found = _DICTATED.match(message) or _LABELLED.match(message)
    if not found or is_held_back(message[: found.start(found.lastindex or 0)]):
        return None
    text = next(filter(None, found.groups()), "").strip()
    is_missing = _POINTING.match(text) or (text.endswith("?") and not re.search('[:"]', message))
    return "" if is_missing or text.casefold() in ("please", "pls") else text


def note_that_was_said(message: str) -> str | None:
    """Return the text before or within a request to note it: "…, so save it as a note".

    None if ``message`` has no such request.
    """
    within = _AS_NOTE.match(message)
    if within and _HAS_CONTENT.search(within[1]) and not is_held_back(message):
        return within[1].strip(" ,;.-'\"\u2018\u2019\u201c\u201d")
    found = _NOTED.match(message)
    if not found or is_held_back(message[found.end(1) :]):
        return None
    text = found[1].strip(" ,;.-")
    is_told = len(text.split()) >= _FEWEST_WORDS and not (REQUEST.match(text) or ASKED.search(text))
    return _MUST_KNOW.sub("", text) if is_told else None


def notes_what_is_found(message: str) -> bool:
    """Return whether ``message`` asks for a note of what is looked up before: "and put it in a note"."""
    return not _SAYS_WHAT.search(message) and notes_what_was_said(message, lambda: message)


def notes_what_was_said(message: str, said: Callable[[], str]) -> bool:
    """Return whether ``message`` asks for a note of what was ``said`` last, such as "write that down"."""
    if is_held_back(message) or _LABELLED.match(message) or _SAID_BEHIND.search(message):
        return False
    if any(pattern.match(message) for pattern in (_POINTED, _WHAT_WAS_SAID, _NOTE_IT)):
        return True
    things = _THINGS.match(message)
    named = things[1] if things else dictated_note(message)
    if not named or _HAS_CONTENT.search(message):
        return False
    is_named_alone = _DETERMINED.match(named) and not _VERB.search(named)
    words, answer = content_words(named), said().casefold()
    return bool(answer) and (bool(is_named_alone) or (bool(words) and all(word in answer for word in words)))
