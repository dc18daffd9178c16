from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant.search import Index, asks_for_list

TEXTS = [
    ("Lasagne recipe", "brown the onions"),
    ("Roof repair", "the roofers need a ladder"),
    ("Car repair", "new brakes"),
    ("Tomato soup", "roast the tomatoes"),
    ("Crème brûlée", "burn the sugar"),
]


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    index = Index()
    for number, (title, text) in enumerate(TEXTS):
        index.put(number, title, text)
    yield index
    index.close()


def titles(index: Index, query: str, limit: int = 3) -> list[str]:
    return [TEXTS[number][0] for number in index.search(query, limit)]


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
def test_finds_what_people_mean(index: Index, query: str, found: list[str]) -> None:
    assert titles(index, query) == found


def test_a_word_with_a_hyphen_is_found_without_it(index: Index) -> None:
    index.put(10, "The Wi-Fi", "on the kick-off day")
    assert index.search("wifi", 1) == index.search("kickoff", 1) == index.search("kick off", 1) == [10]
    index.remove(10)


def test_a_match_in_the_title_comes_first(index: Index) -> None:
    index.put(10, "other", "some bread")
    index.put(11, "bread", "some other")
    assert index.search("bread", 2) == [11, 10]
    index.put(11, "cake", "some other")
    assert index.search("bread", 2) == [10]
    index.remove(10)
    index.remove(11)
    assert index.search("bread", 2) == index.search("cake", 2) == []
    assert len(titles(index, "repair", limit=1)) == 1
    assert titles(index, "the"), "a query of filler words alone searches for them"


@pytest.mark.parametrize(
    "query",
    ['"', "AND", "OR NOT", "title:x", "roof NEAR(", "a*", "-roof", "'; DROP TABLE texts", "{x}", "^", "\0"],
)
def test_query_syntax_is_only_text(index: Index, query: str) -> None:
    titles(index, query)
    assert titles(index, "lasagne") == ["Lasagne recipe"]


@given(st.text())
def test_no_text_is_an_error(index: Index, query: str) -> None:
    titles(index, query)


@pytest.mark.parametrize(
    "query", ["", "all my notes", "what notes do I have?", "read the newest mail", "new mail"]
)
def test_what_asks_for_a_list(query: str) -> None:
    assert asks_for_list(query)


@pytest.mark.parametrize("query", ["roof", "the mail about the roof", "new bicycle"])
def test_what_asks_for_something(query: str) -> None:
    assert not asks_for_list(query)
