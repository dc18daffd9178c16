"""Statements of code that comes in pieces: those that Python itself finds, as soon as they are complete."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.code.statements import MAX_STATEMENT_CHARACTERS, Statements
from tests.hypothesis_profiles import examples

PROGRAM = r'''
# a comment
import json
x = search("a")  # another: "with quotes

y = search(
    "b)",  # not the end)
    limit=[1, 2,
           {"k": (3)}],
)
z = """one
two ' three
four\""" five
""" + 'it\'s' \
    + "more" + ~~~a " b
~~~
if x:
    search("c")

    search("d")
elif y: pass
else:
    pass
for each in y:
    print(each)
else:
    print("none")
@decorated(
    1)
@again
def f(q):
    """Return."""
    return q
match = 3
match x:
    case 1:
        pass
try:
    g()
except ValueError:
    pass
finally:
    pass
async def h():
    await k()
a = f"{x!r:>{10}} {'q'}"; b = 2
last = search("e")
'''.replace("~~~", "'" * 3)


def split(*pieces: str) -> list[str]:
    statements = Statements()
    found = [statement for piece in pieces for statement in statements.feed(piece)]
    return found + statements.finish()


def nodes(statements: list[str]) -> list[str]:
    return [ast.dump(node) for statement in statements for node in ast.parse(statement).body]


EXPECTED = [ast.dump(node) for node in ast.parse(PROGRAM).body]


def test_the_statements_are_those_of_python() -> None:
    assert nodes(split(PROGRAM)) == EXPECTED


@examples(100)
@given(st.lists(st.integers(0, len(PROGRAM)), max_size=40))
def test_they_do_not_depend_on_how_the_code_is_cut(cuts: list[int]) -> None:
    places = sorted({0, len(PROGRAM), *cuts})
    pieces = [PROGRAM[begin:end] for begin, end in pairwise(places)]

    assert split(*pieces) == split(PROGRAM)


@examples(200)
@given(st.text(alphabet="ab =+()[]{}'\"\\\n#:.,if", max_size=60))
def test_any_text_that_python_can_parse_is_split_as_python_does(text: str) -> None:
    try:
        expected = ast.parse(text)
    except (SyntaxError, ValueError):
        split(text)
        return
    assert nodes(split(text)) == [ast.dump(node) for node in expected.body]


def test_a_simple_statement_is_complete_with_its_line() -> None:
    statements = Statements()

    assert statements.feed('x = search("a"') == []
    assert statements.feed(")") == []
    assert statements.feed("\ny") == ['x = search("a")\n']


def test_a_block_is_complete_when_the_next_statement_begins() -> None:
    statements = Statements()

    assert statements.feed("if x:\n    a()\n") == []
    assert statements.feed("else:\n    b()\n") == []
    assert statements.feed("c = 1") == []
    assert statements.feed("\n") == ["if x:\n    a()\nelse:\n    b()\n", "c = 1\n"]


@pytest.mark.parametrize(
    "endless", ["x = '''" + "a\n" * MAX_STATEMENT_CHARACTERS, "x = [\n" + "1,\n" * 40_000]
)
def test_a_statement_without_end_is_not_kept(endless: str) -> None:
    statements = Statements()

    assert statements.feed(endless) == []
    assert statements.feed("]\n'''\ny = 1\n") == []
    assert statements.too_long
