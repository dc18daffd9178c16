"""`CodeSpeculator` in loops that run the code of a model: calls run once, as soon as they are written."""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import re
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentrt import DraftRequest, SpeculationConfig, SpeculationSession, speculable
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta
from agentrt.errors import ConfigurationError
from agentrt.reports.report import SpeculationReport
from agentrt.speculators import CodeSpeculator, EnsembleSpeculator
from agentrt.speculators.code.program import Program
from agentrt.speculators.code.statements import Statements
from agentrt.testing import run_in_virtual_time
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")


class Agent:
    """Runs the code of scripted answers, and notes when tools and statements of the answer come."""

    def __init__(self, *answers: str, invalidated_by: Sequence[str] = ()) -> None:
        self.answers = answers
        self.log: list[str] = []
        self.stored = "old"

        @speculable(invalidated_by=invalidated_by)
        async def read(name: str) -> str:
            self.log.append(f"read {name}")
            return f"{name}: {self.stored}"

        async def write(text: str) -> None:
            self.log.append(f"write {text}")
            self.stored = text

        self.read, self.write = read, write
        self.printed: list[Any] = []

    async def run(self, speculator: CodeSpeculator | None = None) -> SpeculationReport:
        """Run all answers; the model writes a piece, and tools that wait for nothing end meanwhile."""
        chosen = speculator or CodeSpeculator([self.read, self.write])
        names = {"read": self.read, "write": self.write, "print": self.printed.append}
        free = SpeculationConfig(wasted_second_weight=0)
        async with SpeculationSession([self.read], [chosen], config=free) as session:
            for answer in self.answers:
                with session.turn([{"role": "user", "content": "go"}], []) as turn:
                    async for event in self.events(answer):
                        turn.observe(event)
                    turn.bind([])
                await execute(re.findall(r"<code>(.*?)</code>", answer, re.DOTALL)[0], names)
            return session.report()

    async def events(self, answer: str) -> AsyncIterator[ParserEvent]:
        """Write the answer by its words."""
        for piece in re.findall(r"\s*\S+|\s+$", answer):
            yield TextDelta(piece)
            await asyncio.sleep(1)
        self.log.append("answered")


async def execute(code: str, names: dict[str, Any]) -> None:
    """Run code with ``await`` outside of functions, as sandboxes for agents do."""
    compiled = compile(code, "answer", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        result = eval(compiled, names)
        if inspect.isawaitable(result):
            await result
    except ZeroDivisionError:
        pass  # what the model would be told


def run(agent: Agent) -> SpeculationReport:
    return run_in_virtual_time(agent.run)


@pytest.mark.parametrize(
    ("code", "log", "printed", "counts"),
    [
        (
            'a = await read("x")\nprint(a)\nprint(await read("y"))',
            ["read x", "read y", "answered"],
            ["x: old", "y: old"],
            (2, 0, 0),
        ),
        (
            'print(await read("x"))\nprint(await read("x"))',
            ["read x", "answered", "read x"],
            ["x: old", "x: old"],
            (1, 1, 0),
        ),
        (
            'print(await read("x"))\nawait write("new")\nprint(await read("x"))',
            ["read x", "answered", "write new", "read x"],
            ["x: old", "x: new"],
            (1, 0, 0),
        ),
        ('if True:\n    print(await read("x"))', ["answered", "read x"], ["x: old"], (0, 0, 0)),
    ],
    ids=["while it is written", "equal calls", "behind a write", "in a condition"],
)
def test_calls_start_while_the_code_is_being_written(
    code: str, log: list[str], printed: list[str], counts: tuple[int, int, int]
) -> None:
    agent = Agent(f"Thought. <code>\n{code}\n</code> Done.")
    total = run(agent).total

    assert agent.log == log
    assert agent.printed == printed
    assert (total.claims, total.misses, total.wasted) == counts


def test_what_is_read_after_a_file_was_written_is_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"

    @speculable
    def look(path: str) -> str:
        return Path(path).read_text()

    async def main(code: str) -> list[str]:
        file.write_text("old")
        async with SpeculationSession([look], [CodeSpeculator([look])]) as session:
            with session.turn([], []) as turn:
                turn.observe(TextDelta(f"<code>\n{code}\n</code>"))
                await asyncio.sleep(1)
                turn.bind([])
            printed: list[str] = []
            await asyncio.to_thread(exec, code, {"look": look, "print": printed.append})
        return printed

    path, names = str(file), {"name": str(file), "text": "new"}
    for write in (
        f"opened = open({path!r}, 'w')\nopened.write('new')\nopened.close()",
        f"with open({path!r}, 'w') as opened:\n    opened.write('new')",
        f"import os\nos.system('printf new > {path}')",
        f"from pathlib import Path\nPath({path!r}).write_text('new')",
        f"exec('from pathlib import Path; Path(name).write_text(text)', {names!r})",
    ):
        code = f"{write}\nprint(look({path!r}))"
        assert run_in_virtual_time(functools.partial(main, code)) == ["new"]


def test_a_call_that_the_code_does_not_reach_is_wasted_and_does_not_stop_its_tool() -> None:
    failing = '<code>\n1 / 0\nprint(await read("x"))\n</code> .'
    agent = Agent(failing, failing, "<code>\nprint(1)\n</code> .")
    report = run(agent)

    assert agent.log == ["read x", "answered", "read x", "answered", "answered"]
    assert report.tools["read"].stopped == ""
    assert (report.total.claims, report.total.wasted) == (0, 2)


@pytest.mark.parametrize("positional", [True, False])
def test_code_in_an_argument_of_a_call(positional: bool) -> None:
    async def main() -> None:
        agent = Agent()
        call = 'await read(\\"x\\")' if positional else 'await read(name=\\"x\\")'
        speculator = CodeSpeculator([agent.read] if positional else (), runner="python", argument="source")
        async with SpeculationSession([agent.read], [speculator]) as session:
            with session.turn([], []) as turn:
                turn.observe(CallStarted(0, "python"))
                turn.observe(CallArgumentsDelta(0, '{"source": "x = '))
                turn.observe(CallArgumentsDelta(0, f'{call}"}}'))
                await asyncio.sleep(1)
                assert agent.log == ["read x"]
                turn.bind([])
            assert await agent.read("x") == "x: old"
            assert session.report().total.claims == 1

    run_in_virtual_time(main)


def test_sync_code_in_a_thread_claims_too() -> None:
    runs: list[str] = []

    started = threading.Event()

    @speculable
    def look(q: str) -> str:
        runs.append(q)
        started.set()
        return f"found {q}"

    async def main() -> None:
        async with SpeculationSession([look], [CodeSpeculator([look])]) as session:
            with session.turn([], []) as turn:
                turn.observe(TextDelta('<code>\nprint(look("a"))\n</code>'))
                assert await asyncio.to_thread(started.wait, PATIENCE_S)
                turn.bind([])
            printed: list[str] = []
            await asyncio.to_thread(exec, 'print(look("a"))', {"look": look, "print": printed.append})
            assert printed == ["found a"]
            assert session.report().total.claims == 1

    asyncio.run(main())
    assert runs == ["a"]


def test_each_character_of_the_code_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned, taken = list[int](), list[int]()
    scan, take = Statements._scan, Program.take

    def counted_scan(self: Statements, line: str) -> None:
        scanned.append(len(line))
        scan(self, line)

    def counted_take(self: Program, statement: str) -> Any:
        taken.append(len(statement))
        return take(self, statement)

    monkeypatch.setattr(Statements, "_scan", counted_scan)
    monkeypatch.setattr(Program, "take", counted_take)
    code = 'x = read("a")\nif x:\n    y = 1\n' * 500
    request = DraftRequest([], [], speculable=["read"])
    for word in re.findall(r"\s*\S+|\s+$", f"<code>{code}</code>"):
        request.answer.put(TextDelta(word))
    request.answer.end()

    async def drafts() -> int:
        return len([call async for call in CodeSpeculator().drafts(request)])

    assert asyncio.run(drafts()) == 0  # which have no known parameters
    assert sum(scanned) == len(code)
    assert sum(taken) <= len(code)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a fence is empty"):
        CodeSpeculator(fences=[("<code>", "")])
    with pytest.raises(ConfigurationError, match="functions: an object of type int"):
        CodeSpeculator([3])  # type: ignore[list-item]
    for wrong in (None, Agent().read):
        with pytest.raises(ConfigurationError, match=r"functions: .* Give a list of the functions"):
            CodeSpeculator(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="cannot hold a predictor that reads calls"):
        EnsembleSpeculator([CodeSpeculator()])
