"""Forgiving full-text search on SQLite FTS5, shared by notes, mail and files.

What people type is never FTS5 syntax: every word is quoted, any word may match, and FTS5's BM25 puts the
texts that match more and rarer words first. Words match by stem ("recipes" finds "recipe") and by their
beginning ("lasag" finds "lasagne"); if nothing matches, the closest spelling in the index is tried
("lasanya").
"""

from __future__ import annotations

import difflib
import re
import sqlite3
from collections.abc import Sequence

# Words that say nothing about a text; without this "the mail about the roof" would match every mail.
STOP_WORDS = frozenset(
    """
    a about all an and any are at by did do does find for from have how i in is it its me my of on or our say
    says search show tell that the there this to was what when where which who with you your
    """.split()  # noqa: SIM905
)
_LISTED_WORDS = frozenset(
    """
    mail mails email emails note notes new newest latest last recent unread inbox list every read open see
    file files document documents
    """.split()  # noqa: SIM905
)
_HYPHEN = re.compile(r"\b([^\W\d]+)-([^\W\d]+)\b")  # "Wi-Fi" is found as "wifi", too
MOST_FOUND = 3
_SHORTEST_PREFIX = 4
_SHORTEST_MISSPELLING = 5  # shorter words are all close to one another


class Index:
    """Numbered texts with titles in memory. The threads that use it take turns: their lock is the owner's."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._connection.execute(
            "CREATE VIRTUAL TABLE texts "
            "USING fts5(title, text, tokenize='porter unicode61 remove_diacritics 2')"
        )
        self._connection.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(texts, 'row')")

    def put(self, number: int, title: str, text: str) -> None:
        """Add a text, or replace the one with this number."""
        self._connection.execute(
            "REPLACE INTO texts(rowid, title, text) VALUES (?, ?, ?)",
            (number, *(_HYPHEN.sub(r"\g<0> \1\2", each) for each in (title, text))),
        )

    def remove(self, number: int) -> None:
        self._connection.execute("DELETE FROM texts WHERE rowid = ?", (number,))

    def search(self, query: str, limit: int) -> list[int]:
        """The numbers of at most ``limit`` texts that match any word, best first; the title weighs more."""
        words = re.findall(r"\w+", query.casefold())
        words = [word for word in words if word not in STOP_WORDS] or words
        return self._match(words, limit) or self._match(self._closest(words), limit)

    def places_of(self, word: str) -> dict[int, bool]:
        """The numbers of the texts that have ``word``, and whether it is in the title."""
        term = _term(word)
        if not (everywhere := self._numbers(term)):
            return {}
        titles = self._numbers(f"title : {term}")
        return {number: number in titles for number in everywhere}

    def closest(self, word: str) -> str | None:
        """The word of the texts that is spelt most like ``word``."""
        return next(iter(self._closest([word], cutoff=0.76)), None)

    def close(self) -> None:
        self._connection.close()

    def _numbers(self, match: str) -> set[int]:
        rows = self._connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match,))
        return {row[0] for row in rows}

    def _match(self, words: Sequence[str], limit: int) -> list[int]:
        if not words:
            return []
        terms = map(_term, words)
        rows = self._connection.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, 3.0, 1.0), rowid LIMIT ?",
            (" OR ".join(terms), limit),
        )
        return [row[0] for row in rows]

    def _closest(self, words: Sequence[str], cutoff: float = 0.75) -> list[str]:
        rows = self._connection.execute("SELECT term FROM vocabulary")
        vocabulary = [term for (term,) in rows if len(term) >= _SHORTEST_MISSPELLING]
        return [
            match
            for word in words
            if len(word) >= _SHORTEST_MISSPELLING
            for match in difflib.get_close_matches(
                word, [each for each in vocabulary if each[0] == word[0]], 1, cutoff
            )
        ]


def _term(word: str) -> str:
    return f'"{word}"*' if len(word) >= _SHORTEST_PREFIX else f'"{word}"'


def asks_for_list(query: str) -> bool:
    """Whether no word of ``query`` can be searched for: it asks for what there is."""
    return not {*re.findall(r"\w+", query.casefold())} - STOP_WORDS - _LISTED_WORDS
