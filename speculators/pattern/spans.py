"""Runs of words in a message that an argument may be copied from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .text import words

MAX_CHARACTERS = 400
"""The longest text that counts as one value."""
_MAX_WORDS = 80  # of one message
_TOKEN = re.compile(r"\S+")
_EDGES = "\"'`“”‘’()[]{}<>*,;:!?…"  # noqa: RUF001 - the marks that people type
_CLAUSE_END = re.compile(r"[,;:.!?)\]]$")


def tokens_in(line: str) -> list[str]:
    """Return the words of a line without the punctuation around them."""
    return [token.strip(_EDGES).rstrip(".") for token in _TOKEN.findall(line)]


def spans(text: str, longest: int) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    """Yield (position, number of words, text, traits) for each run of up to ``longest`` words in a clause.

    A short message is also yielded as a whole, with 0 as its number of words.
    """
    tokens = [(found.start(), found.group()) for found in _TOKEN.finditer(text)][:_MAX_WORDS]
    if 1 < len(tokens) <= 40 and len(text) <= MAX_CHARACTERS:
        yield tokens[0][0], 0, text.strip(), ("whole",)
        yield tokens[0][0], 0, text.strip().rstrip(".!?"), ("whole",)
    for first in range(len(tokens)):
        for last in range(first, min(first + longest, len(tokens))):
            start = tokens[first][0]
            end = tokens[last][0] + len(tokens[last][1])
            span = text[start:end].strip(_EDGES).rstrip(".")
            if span and (first == last or (words(tokens[first][1]) and words(tokens[last][1]))):
                yield start, last - first + 1, span, tuple(_traits(tokens, first, last, span))
            if _CLAUSE_END.search(tokens[last][1]):
                break


def words_before(text: str, position: int) -> tuple[str, ...]:
    """Return the last words, at most four, before a position in a text."""
    found = re.findall(r"[\w#]+", text[max(0, position - 60) : position].lower())
    return tuple(found[-4:])


def _traits(tokens: Sequence[tuple[int, str]], first: int, last: int, span: str) -> Iterable[str]:
    inner = span.split()
    if all(word[:1].isupper() for word in inner):
        goes_on = last + 1 < len(tokens) and tokens[last + 1][1][:1].isupper()
        goes_on = goes_on and not _CLAUSE_END.search(tokens[last][1])
        led = first > 0 and tokens[first - 1][1][:1].isupper() and first > 1
        led = led and not _CLAUSE_END.search(tokens[first - 1][1])
        yield "capitals" if not (goes_on or led) else "part of capitals"
    if _CLAUSE_END.search(tokens[last][1]) or last == len(tokens) - 1:
        yield "ends a clause"
    if any(character.isdigit() for character in span):
        yield "digits"
    if len(tokens) == 1:
        yield "alone"
