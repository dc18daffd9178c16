import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant import search

TEXTS = [
    ("Lasagne recipe", "brown the onions"),
    ("Roof repair", "the roofers need a ladder"),
    ("Car repair", "new brakes"),
    ("Tomato soup", "roast the tomatoes"),
    ("Crème brûlée", "burn the sugar"),
]


def index() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    search.create_index(connection, "texts")
    connection.executemany("INSERT INTO texts(title, text) VALUES (?, ?)", TEXTS)
    return connection


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = index()
    yield connection
    connection.close()


def titles(connection: sqlite3.Connection, query: str, limit: int = 3) -> list[str]:
    return [TEXTS[row - 1][0] for row in search.rank(connection, "texts", query, limit)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("lasagne", ["Lasagne recipe"]),
        ("LASAGNE", ["Lasagne recipe"]),
        ("recipes", ["Lasagne recipe"]),  # by its stem
        ("lasag", ["Lasagne recipe"]),  # by its beginning
        ("lasanya", ["Lasagne recipe"]),  # by the closest spelling
        ("creme brulee", ["Crème brûlée"]),  # without accents
        ("the roof repair", ["Roof repair", "Car repair"]),  # any word, the better match first
        ("ladder", ["Roof repair"]),  # in the text
        ("what about the soup", ["Tomato soup"]),  # filler words match nothing
        ("root", []),  # close to "roof", but short words are close to many
        ("zeppelin", []),
        ("", []),
        ("?!", []),
    ],
)
def test_finds_what_people_mean(connection: sqlite3.Connection, query: str, found: list[str]) -> None:
    assert titles(connection, query) == found


def test_a_match_in_the_title_comes_first(connection: sqlite3.Connection) -> None:
    connection.executemany(
        "INSERT INTO texts(title, text) VALUES (?, ?)", [("other", "some bread"), ("bread", "some other")]
    )
    assert search.rank(connection, "texts", "bread", 2) == [len(TEXTS) + 2, len(TEXTS) + 1]
    assert len(titles(connection, "repair", limit=1)) == 1
    assert titles(connection, "the"), "a query of filler words alone searches for them"


@pytest.mark.parametrize(
    "query",
    ['"', "AND", "OR NOT", "title:x", "roof NEAR(", "a*", "-roof", "'; DROP TABLE texts", "{x}", "^", "\0"],
)
def test_query_syntax_is_only_text(connection: sqlite3.Connection, query: str) -> None:
    titles(connection, query)
    assert titles(connection, "lasagne") == ["Lasagne recipe"]


@given(st.text())
def test_no_text_is_an_error(query: str) -> None:
    connection = index()
    try:
        titles(connection, query)
    finally:
        connection.close()
