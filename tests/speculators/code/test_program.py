"""Which calls in code are surely made, with literal arguments, by the tool itself."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from agentrt.speculators.code.program import Program
from agentrt.speculators.code.statements import Statements

TOOLS = {"search": ("query", "limit"), "read": ("name",), "send": ("to", "text")}


def found(code: str, speculable: Any = ("search", "read")) -> list[tuple[str, dict[str, Any]]]:
    statements, program = Statements(), Program(TOOLS, speculable)
    complete = [*statements.feed(code), *statements.finish()]
    return [(call.name, dict(call.arguments)) for statement in complete for call in program.take(statement)]


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ('search("a")', {"query": "a"}),
        ('x = search(query="a", limit=3)', {"query": "a", "limit": 3}),
        ('search("a", limit=-1.5)', {"query": "a", "limit": -1.5}),
        ('search("a", limit=None)', {"query": "a", "limit": None}),
        ('search(["a", {"b": [True]}])', {"query": ["a", {"b": [True]}]}),
        ('search("a" "b")', {"query": "ab"}),
        ('search(f"a b")', {"query": "a b"}),
        ("search('''a\nb''')", {"query": "a\nb"}),
        (r'search("\d+ \n \'")', {"query": "\\d+ \n '"}),
        (r'search(r"\d+")', {"query": r"\d+"}),
        ('await search("a")', {"query": "a"}),
        ('x: str = search("a")', {"query": "a"}),
        ('x += search("a")', {"query": "a"}),
        ('print(search("a")["b"][:3].upper())', {"query": "a"}),
        ("f\"{search('a')}\"", {"query": "a"}),
        ('x if search("a") else y', {"query": "a"}),
        ('search("a") or y', {"query": "a"}),
        ('x = [search("a"), 1]', {"query": "a"}),
    ],
)
def test_a_call_with_literal_arguments_is_found(code: str, arguments: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(code) == [("search", arguments)]


@pytest.mark.parametrize(
    "code",
    [
        "search(x)",
        'search("a" + x)',
        'search(f"a {x}")',
        "search(*x)",
        "search(**x)",
        'search("a", 1, 2)',
        'search("a", query="b")',
        'search("a", **{"limit": 1})',
        'search(("a", "b"))',
        'search({"a", "b"})',
        'search(b"a")',
        "search({1: 2})",
        "search(1j)",
        'other("a")',
        'tools.search("a")',
        'lambda: search("a")',
        '[search("a") for x in y]',
        '(search("a") for x in y)',
        'y or search("a")',
        'y if x else search("a")',
        'x < y < search("a")',
        'if x:\n    search("a")',
        'for x in y:\n    search("a")',
        'while x:\n    search("a")',
        'try:\n    search("a")\nexcept E:\n    pass',
        'with x:\n    search("a")',
        'def f():\n    search("a")',
        'async def f():\n    search("a")',
        'class C:\n    x = search("a")',
        'match x:\n    case 1:\n        search("a")',
        'assert search("a")',
        'search("a"',
        'x = = 1\nsearch("a")',
    ],
)
def test_another_call_is_not_found(code: str) -> None:
    assert found(code) == []


@pytest.mark.parametrize(
    "code",
    [
        "search = other",
        "search: int = 1",
        "(search := other)",
        "x, search = other",
        "for search in x: pass",
        "def search(q): pass",
        "class search: pass",
        "import search",
        "import x as search",
        "from x import search",
        "from x import *",
        "del search",
        "try:\n    pass\nexcept E as search:\n    pass",
        "with x as search:\n    pass",
        "if x:\n    search = y",
        "match x:\n    case {**search}:\n        pass",
    ],
)
def test_a_name_that_is_bound_anew_is_not_the_tool(code: str) -> None:
    assert found(f'search("before")\n{code}\nsearch("after")') == [("search", {"query": "before"})]


def test_calls_come_in_the_order_in_which_they_are_made() -> None:
    code = 'x = search(read("a"), limit=1)\nprint(max(search("b"), read("c")))\nread("d")'

    assert [arguments for _, arguments in found(code)] == [
        {"name": "a"},
        {"query": "b"},
        {"name": "c"},
        {"name": "d"},
    ]


WRITES = [
    'send("ann", "hi")',
    "send(x, y)",
    'if x:\n    send("ann", "hi")',
    "def later():\n    send(x, y)",
    "later = send",
    "list(map(send, x))",
    'open("a.txt", "w").write("new")',
    'with open("a.txt", "w") as file:\n    file.write("new")',
    'import os\nos.system("true")',
    'from os import system\nsystem("true")',
    'import subprocess as s\ns.run(["true"])',
    'from pathlib import Path\nPath("a.txt").write_text("new")',
    'exec("anything")',
    'eval("anything")',
    'globals()["anything"]("x")',
    'getattr(x, "anything")()',
    'unlisted("x")',
    "box.send()",
    "later = send\nlater()",
    "send = print\nsend()",
    "print = box.send\nprint()",
    "[print := box.send, print()]",
    "[print() for print in boxes]",
    "(lambda print: print())(box.send)",
    "list(map(box.send, x))",
    "sorted(x, key=box.send)",
    "sorted(x, key=lambda each: each.send())",
    "sorted(x, key=lambda each: unlisted(each))",
    "max(x, key=unlisted)",
    "print(x, file=box)",
    "print(*x, **y)",
    "for each in x:\n    unlisted(each)",
    "if x:\n    box.send()",
    "def f():\n    unlisted()",
    "@unlisted\ndef f(): pass",
    "class C(Base): pass",
    "del x",
    'del x["a"]',
    'x["a"] = 1',
    "x.a = 1",
    'x["a"] += 1',
    "import unlisted",
    "from .json import x",
    "from os import *",
    "await later",
    "await unlisted()",
    "async with x: pass",
    "async for each in x: pass",
    "items = []\nitems = box\nitems.append(1)",
    "items = []\nfor items in boxes: pass\nitems.append(1)",
    "items = []\nf = lambda items: items.append(1)",
    "items = []\ndef f(items): items.append(1)",
    "items = other = []\nother.unlisted()",
    "search = box\nsearch()",
    'f"{unlisted()}"',
    "assert unlisted()",
    "raise unlisted()",
    "x: unlisted() = 1",
]


@pytest.mark.parametrize("write", WRITES)
def test_anything_that_is_not_known_to_be_pure_is_a_write(write: str) -> None:
    assert found(f'search("before")\n{write}\nsearch("after")') == [("search", {"query": "before"})]


@pytest.mark.parametrize(
    "code",
    [
        'print("a", len(x), sorted(y, key=len), max(y, key=lambda each: each["b"]), sep="")',
        'text = "-".join(["a"]) + "{}".format(x) + f"{x:>3}"',
        'found = []\nfound.append(x)\nfound[0] = "b"\nprint(found)',
        'known: dict = {"a": 1}\nknown["b"] = x\nknown.update(y)',
        'text = "a b"\nprint(text.split())',
        "import json, os.path\nfrom datetime import date",
        "for each in x:\n    print(each)\n    read(each)",
        "if x > 3 and y[0].b:\n    print(x)",
        "def f(a, b=1):\n    return a + b",
        "try:\n    int(x)\nexcept ValueError:\n    pass",
        "x, y = 1, [2]",
        "assert x",
    ],
)
def test_what_is_known_to_be_pure_is_no_write(code: str) -> None:
    assert found(f'{code}\nsearch("after")') == [("search", {"query": "after"})]


def test_a_tool_by_the_name_of_a_builtin_is_that_tool() -> None:
    program = Program({"search": ("query",), "print": ("text",)}, ["search"])

    assert program.take('print("a")') == []
    assert program.take('search("a")') == []


@pytest.mark.parametrize(
    ("code", "queries"),
    [
        ('search = search("before")\nsearch("after")', ["before"]),
        ('f(search("before"), send("ann", "hi"), search("after"))', ["before"]),
        ('x = [open("a").write("new"), search("after")][1]', []),
        ('x = {1: unlisted(), search("after"): 2}', []),
        ('x = {search("before"): unlisted(), 1: search("after")}', ["before"]),
        ('unlisted(search("before"), unlisted(), search("after"))', ["before"]),
        ('box.send(search("before"))', ["before"]),
        ('box["a"] = search("before")', ["before"]),
        ('box[unlisted()] = search("a")', []),
        ('print(search("before").upper(), search("after"))', ["before"]),
    ],
)
def test_calls_count_in_the_order_of_evaluation(code: str, queries: list[str]) -> None:
    assert [arguments["query"] for _, arguments in found(code)] == queries


def test_a_coroutine_function_is_called_where_it_is_awaited() -> None:
    def of(code: str) -> list[str]:
        program = Program(TOOLS, ["search", "read"], coroutines=["search"])
        return [call.name for call in program.take(code)]

    assert of('x = search("a")') == []  # and awaited after a write, perhaps
    assert of('x = await search("a")') == ["search"]
    assert of('x = await asyncio.gather(search("a"), read("b"), search("c"))') == ["search", "read", "search"]
    assert of('x = await gather(search("a"), unlisted())') == ["search"]
    assert of('x = asyncio.create_task(search("a"))') == []


def test_a_speculable_tool_with_an_effect_is_called_but_nothing_after_it() -> None:
    program = Program(TOOLS, ["search", "send"], with_effect=["send"])
    calls = [*program.take('send("ann", "hi")'), *program.take('search("after")')]

    assert [call.name for call in calls] == ["send"]


def test_without_names_all_tools_are_speculable() -> None:
    assert [name for name, _ in found('send("ann", "hi")\nread("a")', None)] == ["send", "read"]


def test_a_tool_without_known_parameters_is_found_by_keywords_only() -> None:
    program = Program({}, ["look"])

    assert program.take('look("a")') == []
    assert [call.arguments for call in program.take('look(q="a")')] == [{"q": "a"}]


def test_deep_nesting_ends_the_program() -> None:
    assert found("x = " + "-" * 5000 + '1\nsearch("a")') == []
