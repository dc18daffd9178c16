from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway.stream_joiner import StreamJoiner
from agentrt.runtime.toolcache.outputs import ToolOutputs

TOOL = {"type": "function", "function": {"name": "read"}}


def outputs_of(*paths: str) -> ToolOutputs:
    outputs = ToolOutputs([TOOL])
    for path in paths:
        assert outputs.put("read", {"path": path}, f"text of {path}")
    return outputs


def joiner_of(*paths: str, hides_usage: bool = False) -> StreamJoiner:
    return StreamJoiner("ours", "model", outputs_of(*paths), hides_usage=hides_usage)


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "theirs", "created": 7, "choices": [choice], **more}


def call(index: int, path: str, id: str | None = "c") -> dict[str, Any]:
    function = {"name": "read", "arguments": json.dumps({"path": path})}
    return {"index": index, "id": id, "type": "function", "function": function}


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def sent(joiner: StreamJoiner, *chunks: dict[str, Any]) -> list[dict[str, Any]]:
    return [sent for one in chunks for sent in (*joiner.client_chunks(one), *joiner.end_turn())]


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["choices"][0]["delta"] for one in chunks]


def test_an_answer_without_calls_only_gets_another_id() -> None:
    joiner = joiner_of("a")
    theirs = [
        chunk({"content": "hi"}, system_fingerprint="f"),
        chunk({}, "stop"),
        chunk({}) | {"choices": []},
    ]
    assert sent(joiner, *theirs) == [one | {"id": "ours"} for one in theirs]
    assert not joiner.turn_answered
    assert joiner.held_chunks() == []


def test_calls_in_pieces_are_answered() -> None:
    joiner = joiner_of("a")
    first = call(0, "a") | {"function": {"name": "read", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": text}} for text in ('{"pa', 'th": "a"}')]
    opening = chunk({"role": "assistant", "content": "I read."})
    received = sent(
        joiner,
        opening,
        *(chunk({"tool_calls": [part]}) for part in (first, *pieces)),
        chunk({}, "tool_calls"),
    )
    assert deltas(received) == [
        {"content": "I read."},
        {"tool_calls": [first]},
        *({"tool_calls": [piece]} for piece in pieces),
    ]
    assert joiner.turn_answered
    assert joiner.turn_messages() == [
        {
            "role": "assistant",
            "content": "I read.",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "text of a"},
    ]
    results = list(joiner.begin_next_turn())
    result = {"index": 0, "tool_call_id": "c", "name": "read", "content": "text of a"}
    assert deltas(results) == [{"tool_results": [result]}]
    assert results[0]["choices"][0]["finish_reason"] is None
    assert results[0]["id"] == "ours"


def test_a_finish_that_comes_with_the_last_piece() -> None:
    joiner = joiner_of("a")
    (received,) = sent(joiner, chunk({"tool_calls": [call(0, "a")]}, "tool_calls"))
    assert received["choices"][0] == {
        "index": 0,
        "delta": {"tool_calls": [call(0, "a")]},
        "finish_reason": None,
    }
    (held,) = joiner.held_chunks()
    assert held["choices"][0]["finish_reason"] == "tool_calls"
    assert held["choices"][0]["delta"] == {}


def test_outputs_that_arrive_with_the_end_of_the_turn() -> None:
    outputs = outputs_of()
    joiner = StreamJoiner("ours", "model", outputs, hides_usage=False)
    made = chunk({"tool_calls": [call(0, "a")]}, "tool_calls")
    assert joiner.ending_calls == []
    assert list(joiner.client_chunks(made)) == []
    assert [(each.name, each.arguments) for each in joiner.ending_calls] == [("read", {"path": "a"})]
    outputs.put("read", {"path": "a"}, "text of a")
    assert deltas(list(joiner.end_turn())) == [{"tool_calls": [call(0, "a")]}]
    assert joiner.turn_answered
    assert joiner.ending_calls == list(joiner.end_turn()) == []


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
    assert result["tool_results"][0] == {
        "index": 1,
        "tool_call_id": part["id"],
        "name": "read",
        "content": "text of b",
    }


def test_another_model_in_the_next_turn_is_refused() -> None:
    joiner = joiner_of("a")
    sent(joiner, chunk({}, model=""), chunk({"tool_calls": [call(0, "a")]}, "tool_calls", model="one"))
    list(joiner.begin_next_turn())
    assert len(sent(joiner, chunk({"content": "x"}, model="one"), chunk({"content": "y"}))) == 2
    with pytest.raises(httpx.RemoteProtocolError, match="the model 'two' in place of 'one'"):
        sent(joiner, chunk({"content": "z"}, model="two"))


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


def test_usage_that_the_client_did_not_request_is_hidden() -> None:
    joiner = joiner_of(hides_usage=True)
    received = sent(joiner, chunk({"content": "x"}, usage=None), {"choices": [], "usage": usage(10, 4)})
    assert received == [chunk({"content": "x"}) | {"id": "ours"}]
    assert joiner.completion_tokens == 4


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


def test_a_turn_that_is_too_long_is_not_recorded() -> None:
    joiner = joiner_of("a")
    for _ in range(5):
        sent(joiner, chunk({"content": "x" * 2**20}))
    sent(joiner, chunk({"tool_calls": [call(0, "a")]}), chunk({}, "tool_calls"))
    assert not joiner.turn_answered
    assert joiner._turn._text == []


def test_a_turn_with_too_many_calls_or_values_is_not_recorded() -> None:
    for calls in ([call(index, "a", f"c{index}") for index in range(1025)], [call(0, "a")] * 3):
        joiner = joiner_of("a")
        numbers = chunk({"tool_calls": [{"index": 0, "function": {"arguments": " " * 500_000}}]})
        chunks = [chunk({"tool_calls": calls}), numbers, numbers, numbers, chunk({}, "tool_calls")]
        received = sent(joiner, *chunks)
        assert [one["id"] for one in received] == ["ours"] * len(chunks)
        assert not joiner.turn_answered
    values = {
        "index": 0,
        "id": "c",
        "function": {"name": "read", "arguments": "{" + '"a":1,' * 60_000 + '"b":1}'},
    }
    joiner = joiner_of("a")
    sent(joiner, chunk({"tool_calls": [values]}), chunk({}, "tool_calls"))
    assert joiner._turn.tool_calls() == []


def test_an_engine_that_goes_on_behind_the_end_of_an_answered_turn() -> None:
    joiner = joiner_of("a")
    sent(joiner, chunk({"tool_calls": [call(0, "a")]}, "tool_calls"))
    with pytest.raises(httpx.RemoteProtocolError, match="more than 64 chunks"):
        sent(joiner, *[chunk({"content": "x"})] * 64)
