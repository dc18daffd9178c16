"""The time that answers take, without that in which a person decides."""

from __future__ import annotations

import asyncio
import io
import itertools
import json

import pytest
from rich.console import Console

from agentrt.cli.chat.approval import WorkClock
from agentrt.cli.chat.one_shot import answer_once
from agentrt.cli.chat.session import ChatSession
from agentrt.testing import run_in_virtual_time
from tests.agentrt.cli.chat.echo import Echo, echo_assistant


def test_it_stands_still_while_the_user_is_asked() -> None:
    async def main() -> list[float]:
        clock = WorkClock(asyncio.get_running_loop().time)
        one_at_a_time = asyncio.Lock()

        async def decide(call: str) -> str | None:
            async with one_at_a_time:
                await asyncio.sleep(100)
            if call == "fail":
                raise EOFError
            return call

        ask = clock.stopped_by(decide)
        begun = clock()
        await asyncio.sleep(1)
        times = [clock() - begun]
        asked = [asyncio.create_task(ask(call)) for call in ("a", "b")]
        await asyncio.sleep(50)
        times.append(clock() - begun)
        assert await asyncio.gather(*asked) == ["a", "b"]
        times.append(clock() - begun)
        with pytest.raises(EOFError):
            await ask("fail")
        await asyncio.sleep(2)
        return [*times, clock() - begun]

    assert run_in_virtual_time(main) == [1, 1, 1, 3]


class Person:
    """Takes 1000 seconds to allow a call, by a clock that nothing else moves."""

    def __init__(self) -> None:
        self.now = 0.0

    async def why_not(self, call: str) -> None:
        self.now += 1000


def test_the_seconds_that_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    person, printed = Person(), io.StringIO()
    lines = itertools.chain(["write", "/stats"])

    def read() -> str:
        for line in lines:
            return line
        raise EOFError

    with asyncio.Runner() as runner:
        clock = WorkClock(lambda: person.now)
        assistant = echo_assistant(runner, Echo(requests=[]), why_not=person.why_not, clock=clock)
        ChatSession(assistant, Console(file=printed), read).run()
        answer_once(assistant, "write", as_json=True)
    assert person.now == 2000
    assert "(0.00 s" in printed.getvalue()
    assert "answers:    1 in 0.00 s" in printed.getvalue()
    assert json.loads(capsys.readouterr().out)["seconds"] == 0
