"""What @speculable accepts, how it validates, and when two calls are one."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from typing import Any, Literal

import pytest

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.errors import ConfigurationError, NotSpeculableError
from agentrt.reports import ToolReport
from agentrt.testing import run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from agentrt.tools.speculable_tool import SpeculableTool
from tests.agentrt.turns.sessions import drafting, drive


@speculable
def search(query: str, limit: int = 3, order: Literal["new", "old"] = "new") -> str:
    return f"{query} {limit} {order}"


def described(tool: Any) -> SpeculableTool:
    found = speculable_tool(tool)
    assert found is not None
    return found


def key_of(tool: Any, **arguments: Any) -> str:
    described_tool = described(tool)
    return described_tool.key(described_tool.bind(arguments))


def test_a_function_stays_what_it_is() -> None:
    @speculable(ttl=5.0, max_concurrency=2)
    async def read(path: str) -> str:
        return path

    assert search("a", limit=1) == "a 1 new"
    assert inspect.iscoroutinefunction(read)
    assert described(read).options.ttl == 5.0
    assert (described(read).call, described(search).acall) == (None, None)


def test_frameworks_see_the_function_itself() -> None:
    def find(query: str, limit: int = 3) -> list[str]:
        """Find something."""
        return [query] * limit

    made = speculable(find)
    assert inspect.signature(made) == inspect.signature(find)
    assert typing.get_type_hints(made) == typing.get_type_hints(find)
    assert (made.__name__, made.__doc__, made.__module__) == (find.__name__, find.__doc__, find.__module__)
    assert not inspect.iscoroutinefunction(made)
    with pytest.raises(TypeError, match="unexpected keyword"):
        made(query="a", extra=1)  # type: ignore[call-arg]


def test_decorating_again_replaces_the_options() -> None:
    again = speculable(search, ttl=1.0)
    assert described(again).options.ttl == 1.0
    assert again.__wrapped__ is search.__wrapped__  # type: ignore[attr-defined]


def test_what_was_not_declared_is_not_speculable() -> None:
    assert speculable_tool(len) is None


def test_defaults_and_coercions_agree() -> None:
    assert (
        key_of(search, query="a")
        == key_of(search, query="a", limit="3")
        == key_of(search, limit=3.0, query="a")
    )
    assert key_of(search, query="a") != key_of(search, query="a", limit=4)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"query": "a", "extra": 1}, {"query": "a", "limit": "many"}, {"query": "a", "order": "odd"}],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        described(search).bind(arguments)


def test_a_canonicaliser_decides_what_is_the_same() -> None:
    @speculable(canonical=lambda city: {"city": city.strip().lower()})
    def weather(city: str) -> str:
        return city

    assert key_of(weather, city=" Oslo") == key_of(weather, city="oslo")
    assert key_of(weather, city="Bergen") != key_of(weather, city="oslo")


class Notes:
    """Notes of one person."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.runs: list[str] = []

    def find(self, word: str) -> str:
        """Find a note."""
        self.runs.append(word)
        return f"{self.owner}: {word}"

    async def afind(self, word: str) -> str:
        """Find a note."""
        return self.find(word)


@pytest.mark.parametrize("name", ["find", "afind"])
def test_the_method_of_an_object_is_a_tool(name: str) -> None:
    notes = Notes("Ann")
    find = speculable(getattr(notes, name))

    call = ToolCall(name, {"word": "tea"}, "c1")
    driven = drive(find, drafting(call), [call])
    assert (driven.results, driven.report.total.claims) == (["Ann: tea"], 1)
    assert notes.runs == ["tea"]
    assert list(inspect.signature(find).parameters) == ["word"]


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(NotSpeculableError, match=r"Notes.find is a method without its object.*object.find"):
        speculable(Notes.find)
    with pytest.raises(NotSpeculableError, match="is a method without its object"):

        class Broken:
            @speculable
            async def find(self, word: str) -> str:
                return word


def test_names_of_writing_tools_come_in_any_collection() -> None:
    for names in (["send"], ("send",), {"send"}, {"send": 1}.keys()):
        described = speculable_tool(speculable(invalidated_by=names)(Notes("Ann").find))  # type: ignore[arg-type]
        assert described is not None
        assert described.options.invalidated_by == ("send",)
    for wrong in ("send", {"send": 1}, 3, None, [3]):
        with pytest.raises(ConfigurationError, match=r"^a speculable tool cannot be used.*invalidated_by"):
            speculable(invalidated_by=wrong)  # type: ignore[arg-type]


def pages(query: str) -> Iterator[str]:
    yield query


async def apages(query: str) -> AsyncIterator[str]:
    yield query


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (lambda *words: None, "named parameters"),
        (lambda **rest: None, "named parameters"),
        (pages, r"generator function.* Return the whole result"),
        (apages, r"generator function.* Return the whole result"),
        (object(), "Decorate the function"),
        ("search", "Decorate the function"),
    ],
)
def test_what_is_no_tool_is_refused(bad: Any, problem: str) -> None:
    with pytest.raises(NotSpeculableError, match=problem):
        speculable(bad)


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 0},
        {"max_concurrency": 0},
        {"timeout": -1},
        {"cost": -1},
        {"retries": 1},
        {"invalidated_by": "save"},
        {"prepare": print},
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        speculable(**options)(lambda: None)


def shown(n: int = 3, when: date | None = None, x: float = 0, tags: tuple[str, ...] = ()) -> str:
    return f"{n!r} {when!r} {x!r} {tags!r}"


async def shown_async(n: int = 3, when: date | None = None, x: float = 0, tags: tuple[str, ...] = ()) -> str:
    return shown(n, when, x, tags)


CONVERTED: list[dict[str, Any]] = [
    {"n": "5"},
    {"n": 5.0},
    {"n": True},
    {"when": "2025-01-01"},
    {"x": 1},
    {"tags": ["a"]},
]
KEPT: list[dict[str, Any]] = [{}, {"n": 5}, {"when": date(2025, 1, 1)}, {"x": 1.0}, {"tags": ("a",)}]


@pytest.mark.parametrize(
    ("arguments", "claimed"), [(each, False) for each in CONVERTED] + [(each, True) for each in KEPT]
)
@pytest.mark.parametrize("function", [shown, shown_async])
def test_a_direct_call_gives_what_it_gives_without_speculation(
    function: Callable[..., Any], arguments: dict[str, Any], claimed: bool
) -> None:
    total = called_directly(speculable(function), arguments, shown(**arguments), arguments)
    assert (total.claims, total.misses) == (int(claimed), int(not claimed))


def called_directly(tool: Any, drafted: dict[str, Any], result: str, given: dict[str, Any]) -> ToolReport:
    """Call the tool itself, once its call was drafted and made by the model; return the totals."""

    async def main() -> ToolReport:
        made = ToolCall(tool.__name__, drafted, "call_1")
        async with SpeculationSession([tool], drafting(made)) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([made])
            answer = tool(**given)
            assert (await answer if inspect.isawaitable(answer) else answer) == result
            return session.report().total

    return run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("drafted", "given"), [([1, 2], (1, 2)), ({"tuple": [1]}, (1,)), ({"int:1": 2}, {1: 2}), ([1], [1])]
)
def test_a_direct_call_claims_no_run_whose_arguments_have_other_types(drafted: Any, given: Any) -> None:
    @speculable
    def shown(x):  # type: ignore[no-untyped-def]
        return repr(x)

    assert called_directly(shown, {"x": drafted}, repr(given), {"x": given}).claims == int(drafted == given)
