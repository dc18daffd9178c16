"""What an agent reads from a streamed answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agentrt.bench.toolcache.agents import Done, _Answer


def delta(arguments: str | None = None, content: str | None = None, answered: bool = False) -> Any:
    function = SimpleNamespace(name="get_weather", arguments=arguments)
    calls = None if arguments is None else [SimpleNamespace(id="call", function=function)]
    extra = {"tool_results": [{}]} if answered else {}
    return SimpleNamespace(tool_calls=calls, content=content, model_extra=extra)


def test_a_second_call_behind_the_answered_one_is_left_alone() -> None:
    done = Done()
    answer = _Answer(done, 0.0)
    for number, each in enumerate((delta('{"city": '), delta('"Oslo"}'), delta(answered=True)), 1):
        answer._read_delta(each, float(number))
    answer._read_delta(delta('{"city": "Rome"}'), 4.0)
    answer._read_delta(delta(content="Rain."), 5.0)
    assert done.arguments == '{"city": "Oslo"}'
    assert answer.call is None
    assert done.transcript == ("get_weather", '{"city": "Oslo"}', "Rain.")
