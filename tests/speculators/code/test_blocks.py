"""Code in the text of an answer, and in an argument of a call."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.speculators.code.blocks import ArgumentCode, FencedCode
from agentrt.speculators.code.speculator import FENCES
from tests.hypothesis_profiles import examples

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
