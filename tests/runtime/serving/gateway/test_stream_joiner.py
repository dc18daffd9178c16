from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway.stream_joiner import StreamJoiner
from agentrt.runtime.toolcache.outputs import ToolOutputs

TOOL = {"type": "function", "function": {"name": "read"}}


def joiner_of(*paths: str) -> StreamJoiner:
    outputs = ToolOutputs([TOOL])
    for path in paths:
        assert outputs.put("read", {"path": path}, f"text of {path}")
    return StreamJoiner("ours", "model", outputs, hides_usage=False)


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "theirs", "created": 7, "choices": [choice], **more}


def call(index: int, path: str, id: str | None = "c") -> dict[str, Any]:
    function = {"name": "read", "arguments": json.dumps({"path": path})}
    return {"index": index, "id": id, "type": "function", "function": function}


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}


def sent(joiner: StreamJoiner, *chunks: dict[str, Any]) -> list[dict[str, Any]]:
    return [sent for one in chunks for sent in (*joiner.client_chunks(one), *joiner.end_turn())]


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["choices"][0]["delta"] for one in chunks]


def test_a_finish_that_comes_with_the_last_piece() -> None:
    joiner = joiner_of("a")
    (received,) = sent(joiner, chunk({"tool_calls": [call(0, "a")]}, "tool_calls"))
    unfinished = {"index": 0, "delta": {"tool_calls": [call(0, "a")]}, "finish_reason": None}
    assert received["choices"] == [unfinished]
    (held,) = joiner.held
    assert held["choices"][0]["finish_reason"] == "tool_calls"
    assert held["choices"][0]["delta"] == {}


def test_all_calls_of_a_turn_or_none() -> None:
    both = chunk({"tool_calls": [call(0, "a"), call(1, "b", "d")]})
    joiner = joiner_of("a")
    assert len(sent(joiner, both, chunk({}, "tool_calls"))) == 2
    assert not joiner.turn_answered
    joiner = joiner_of("a", "b")
    assert len(sent(joiner, both, chunk({}, "tool_calls"))) == 1
    assert [message.get("tool_call_id") for message in joiner.turn_messages()] == [None, "c", "d"]
    assert [delta["tool_results"][0]["index"] for delta in deltas(list(joiner.begin_next_turn()))] == [0, 1]


def test_calls_are_numbered_across_turns_and_no_id_is_repeated() -> None:
    joiner = joiner_of("a", "b")
    sent(joiner, chunk({"tool_calls": [call(0, "a")]}), chunk({}, "tool_calls"))
    list(joiner.begin_next_turn())
    second, more = sent(
        joiner,
        chunk({"role": "assistant", "tool_calls": [call(0, "b") | {"function": {"name": "read"}}]}),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": '{"path": "b"}'}}]}),
    )
    (part,) = second["choices"][0]["delta"]["tool_calls"]
    assert "role" not in second["choices"][0]["delta"]
    assert part["index"] == 1
    assert part["id"] != "c"
    assert more["choices"][0]["delta"]["tool_calls"][0]["id"] == part["id"]
    sent(joiner, chunk({}, "tool_calls"))
    assert joiner.turn_messages()[1]["tool_call_id"] == part["id"]
    (result,) = deltas(list(joiner.begin_next_turn()))
    answered = {"index": 1, "tool_call_id": part["id"], "name": "read", "content": "text of b"}
    assert result == {"tool_results": [answered]}


def test_usage_is_summed() -> None:
    joiner = joiner_of("a")
    last = {"id": "theirs", "choices": [], "usage": usage(10, 4, 8)}
    sent(joiner, chunk({"tool_calls": [call(0, "a")]}), chunk({}, "tool_calls"), last)
    assert joiner.completion_tokens == 4
    list(joiner.begin_next_turn())
    assert joiner.completion_tokens is None
    *_, received = sent(
        joiner, chunk({"content": "x"}), chunk({}, "stop"), last | {"usage": usage(20, 3, 12)}
    )
    assert received["usage"] == usage(30, 7, 20)
    assert joiner.completion_tokens == 7


def test_malformed_chunks_are_passed_on() -> None:
    for odd in (
        [call(0, "a") | {"index": None}],
        [call(1, "a")],
        [call(0, "a"), call(0, "a") | {"function": {"name": "write"}}],
        [call(0, "a") | {"function": {"name": "read", "arguments": {"path": "a"}}}],
        [call(0, "a") | {"function": {"name": "read", "arguments": '{"path": '}}],
        [call(0, "a") | {"function": {"name": "read", "arguments": "[]"}}],
        "calls",
    ):
        joiner = joiner_of("a")
        received = sent(joiner, chunk({"tool_calls": odd}), chunk({}, "tool_calls"))
        assert [one["choices"][0]["finish_reason"] for one in received] == [None, "tool_calls"], odd
        assert not joiner.turn_answered, odd
    two = {"choices": [chunk({})["choices"][0], chunk({})["choices"][0]]}
    joiner = joiner_of("a")
    assert sent(joiner, two) == [two | {"id": "ours"}]


def function(arguments: str) -> dict[str, Any]:
    return {"index": 0, "id": "c", "function": {"name": "read", "arguments": arguments}}


@pytest.mark.parametrize(
    "deltas_sent",
    [
        [{"content": "x" * 2**20}] * 5 + [{"tool_calls": [call(0, "a")]}],
        [{"tool_calls": [call(index, "a", f"c{index}") for index in range(1025)]}],
        [{"tool_calls": [call(0, "a")]}] + [{"tool_calls": [function(" " * 500_000)]}] * 3,
        [{"tool_calls": [function("{" + '"a":1,' * 60_000 + '"path":"a"}')]}],
    ],
    ids=["text", "calls", "arguments", "values"],
)
def test_a_turn_that_is_too_long_is_left_to_the_client(deltas_sent: list[dict[str, Any]]) -> None:
    joiner = joiner_of("a")
    received = sent(joiner, *map(chunk, deltas_sent), chunk({}, "tool_calls"))
    assert [one["id"] for one in received] == ["ours"] * (len(deltas_sent) + 1)
    assert not joiner.turn_answered


def test_an_engine_that_goes_on_behind_the_end_of_an_answered_turn() -> None:
    joiner = joiner_of("a")
    sent(joiner, chunk({"tool_calls": [call(0, "a")]}, "tool_calls"))
    with pytest.raises(httpx.RemoteProtocolError, match="more than 64 chunks"):
        sent(joiner, *[chunk({"content": "x"})] * 64)
