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
from collections.abc import Iterable, Sequence

_TOKENIZER = "porter unicode61 remove_diacritics 2"

# Words that say nothing about a text; without this "the mail about the roof" would match every mail.
_STOP_WORDS = frozenset(
    """
    a about all an and any are at by did do does find for from have how i in is it its me my of on or our say
    says search show tell that the there this to was what when where which who with you your
    """.split()  # noqa: SIM905
)
_LISTED_WORDS = frozenset(
    "mail mails email emails note notes new newest latest last recent unread inbox list every".split()  # noqa: SIM905
)
_SHORTEST_PREFIX = 4
_SHORTEST_MISSPELLING = 5  # shorter words are all close to one another


class Index:
    """Texts with titles in memory. The threads that use it take turns: their lock is the owner's."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)

    def fill(self, texts: Iterable[tuple[str, str]]) -> None:
        """Hold these titles and texts instead of others."""
        with self._connection as connection:
            connection.execute("DROP TABLE IF EXISTS texts_vocabulary")
            connection.execute("DROP TABLE IF EXISTS texts")
            create_index(connection, "texts")
            connection.executemany("INSERT INTO texts(title, text) VALUES (?, ?)", texts)

    def search(self, query: str, limit: int) -> list[int]:
        """The places of the texts that match best, best first, counted from zero; see :func:`rank`."""
        return [row - 1 for row in rank(self._connection, "texts", query, limit)]

    def close(self) -> None:
        self._connection.close()


def asks_for_list(query: str) -> bool:
    """Whether no word of ``query`` can be searched for: it asks for what there is."""
    return not {*re.findall(r"\w+", query.casefold())} - _STOP_WORDS - _LISTED_WORDS


def rank(connection: sqlite3.Connection, table: str, query: str, limit: int) -> list[int]:
    """Row ids of the FTS5 ``table`` that match any word of ``query``, best first, at most ``limit``.

    ``table`` must have a column ``title``, which weighs more than the rest, as its first one, and a
    companion ``{table}_vocabulary`` (see :func:`create_index`).
    """
    words = _words(query)
    found = _match(connection, table, words, limit)
    if not found and words:
        found = _match(connection, table, _closest(connection, table, words), limit)
    return found


def create_index(connection: sqlite3.Connection, table: str, *, content: str | None = None) -> None:
    """Create the FTS5 ``table`` with columns ``title`` and ``text``, unless it exists.

    With ``content`` it indexes the columns of that table and stores no text of its own.
    """
    source = f", content='{content}', content_rowid='id'" if content else ""
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5(title, text, tokenize='{_TOKENIZER}'{source})"
    )
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {table}_vocabulary USING fts5vocab({table}, 'row')"
    )


def _words(query: str) -> list[str]:
    words = re.findall(r"\w+", query.casefold())
    return [word for word in words if word not in _STOP_WORDS] or words


def _match(connection: sqlite3.Connection, table: str, words: Sequence[str], limit: int) -> list[int]:
    if not words:
        return []
    terms = [f'"{word}"*' if len(word) >= _SHORTEST_PREFIX else f'"{word}"' for word in words]
    rows = connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}, 3.0, 1.0), rowid LIMIT ?",
        (" OR ".join(terms), limit),
    )
    return [row[0] for row in rows]


def _closest(connection: sqlite3.Connection, table: str, words: Sequence[str]) -> list[str]:
    vocabulary = [row[0] for row in connection.execute(f"SELECT term FROM {table}_vocabulary")]
    return [
        match
        for word in words
        if len(word) >= _SHORTEST_MISSPELLING
        for match in difflib.get_close_matches(word, vocabulary, 1, cutoff=0.7)
    ]
