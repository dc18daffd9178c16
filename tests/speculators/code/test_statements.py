"""Code that comes in pieces: where it stands in an answer, and its statements."""

from __future__ import annotations

import ast
import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.speculators.code.blocks import ArgumentCode, FencedCode
from agentrt.speculators.code.speculator import FENCES
from agentrt.speculators.code.statements import MAX_STATEMENT_CHARACTERS, Statements
from tests.hypothesis_profiles import examples

# Code in the text of an answer, and in an argument of a call.


ANSWER = "I look.\n```python\nx = 1\n```\nThen `y`:\n<code>y = 2</code> and ```py\nz = 3\n``` done."


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in pairwise(places)]


@examples(100)
@given(st.lists(st.integers(0, 1000), max_size=40))
def test_code_between_fences(cuts: list[int]) -> None:
    reader = FencedCode(FENCES)

    assert "".join(map(reader.feed, pieces(ANSWER, cuts))) == "x = 1\n\ny = 2\nz = 3\n\n"


@examples(100)
@given(st.text(max_size=40), st.booleans(), st.lists(st.integers(0, 1000), max_size=40))
@example(r'print("a\n\\", "\u0041")', True, list(range(100)))
@example("😀\\", True, list(range(100)))
def test_code_in_an_argument(code: str, ascii: bool, cuts: list[int]) -> None:
    text = json.dumps({"title": "x\\", "code": code, "then": "more"}, ensure_ascii=ascii)
    reader = ArgumentCode("code")

    assert "".join(map(reader.feed, pieces(text, cuts))) == code + "\n"


def test_an_argument_that_is_no_json_ends_the_code() -> None:
    reader = ArgumentCode("code")

    assert reader.feed(r'{"code": "x = 1\n\q') == ""
    assert reader.feed('y = 2"') == ""


# Statements of code that comes in pieces: those that Python itself finds, as soon as they are complete.


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
