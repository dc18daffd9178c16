from __future__ import annotations

import json
from typing import Any

from agentrt.runtime.gateway.stream_joiner import Splice
from agentrt.runtime.toolcache.outputs import ToolOutputs

TOOL = {"type": "function", "function": {"name": "read"}}


def outputs_of(*paths: str) -> ToolOutputs:
    outputs = ToolOutputs([TOOL])
    for path in paths:
        assert outputs.put("read", {"path": path}, f"text of {path}")
    return outputs


def splice_of(*paths: str, hides_usage: bool = False) -> Splice:
    return Splice("ours", "model", outputs_of(*paths), hides_usage=hides_usage)


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


def sent(splice: Splice, *chunks: dict[str, Any]) -> list[dict[str, Any]]:
    return [ours for one in chunks for ours in splice.chunks(one)]


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["choices"][0]["delta"] for one in chunks]


def test_an_answer_without_calls_has_only_another_id() -> None:
    splice = splice_of("a")
    theirs = [
        chunk({"content": "hi"}, system_fingerprint="f"),
        chunk({}, "stop"),
        chunk({}) | {"choices": []},
    ]
    assert sent(splice, *theirs) == [one | {"id": "ours"} for one in theirs]
    assert not splice.answered
    assert splice.give_up() == []


def test_calls_in_pieces_are_answered() -> None:
    splice = splice_of("a")
    first = call(0, "a") | {"function": {"name": "read", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": text}} for text in ('{"pa', 'th": "a"}')]
    opening = chunk({"role": "assistant", "content": "I read."})
    told = sent(
        splice,
        opening,
        *(chunk({"tool_calls": [part]}) for part in (first, *pieces)),
        chunk({}, "tool_calls"),
    )
    assert deltas(told) == [
        {"content": "I read."},
        {"tool_calls": [first]},
        *({"tool_calls": [piece]} for piece in pieces),
    ]
    assert splice.answered
    assert splice.turn() == [
        {
            "role": "assistant",
            "content": "I read.",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "text of a"},
    ]
    results = list(splice.next_turn())
    result = {"index": 0, "tool_call_id": "c", "name": "read", "content": "text of a"}
    assert deltas(results) == [{"tool_results": [result]}]
    assert results[0]["choices"][0]["finish_reason"] is None
    assert results[0]["id"] == "ours"


def test_a_finish_that_comes_with_the_last_piece() -> None:
    splice = splice_of("a")
    (told,) = sent(splice, chunk({"tool_calls": [call(0, "a")]}, "tool_calls"))
    assert told["choices"][0] == {"index": 0, "delta": {"tool_calls": [call(0, "a")]}, "finish_reason": None}
    (held,) = splice.give_up()
    assert held["choices"][0]["finish_reason"] == "tool_calls"
    assert held["choices"][0]["delta"] == {}


def test_all_calls_of_a_turn_or_none() -> None:
    both = chunk({"tool_calls": [call(0, "a"), call(1, "b", "d")]})
    splice = splice_of("a")
    assert len(sent(splice, both, chunk({}, "tool_calls"))) == 2
    assert not splice.answered
    splice = splice_of("a", "b")
    assert len(sent(splice, both, chunk({}, "tool_calls"))) == 1
    assert [message.get("tool_call_id") for message in splice.turn()] == [None, "c", "d"]
    assert [delta["tool_results"][0]["index"] for delta in deltas(list(splice.next_turn()))] == [0, 1]


def test_calls_are_counted_through_and_no_id_is_given_twice() -> None:
    splice = splice_of("a", "b")
    sent(splice, chunk({"tool_calls": [call(0, "a")]}), chunk({}, "tool_calls"))
    list(splice.next_turn())
    second, more = sent(
        splice,
        chunk({"role": "assistant", "tool_calls": [call(0, "b") | {"function": {"name": "read"}}]}),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": '{"path": "b"}'}}]}),
    )
    (part,) = second["choices"][0]["delta"]["tool_calls"]
    assert "role" not in second["choices"][0]["delta"]
    assert part["index"] == 1
    assert part["id"] != "c"
    assert more["choices"][0]["delta"]["tool_calls"][0]["id"] == part["id"]
    sent(splice, chunk({}, "tool_calls"))
    assert splice.turn()[1]["tool_call_id"] == part["id"]
    (result,) = deltas(list(splice.next_turn()))
    assert result["tool_results"][0] == {
        "index": 1,
        "tool_call_id": part["id"],
        "name": "read",
        "content": "text of b",
    }


def test_usage_is_added_up() -> None:
    splice = splice_of("a")
    last = {"id": "theirs", "choices": [], "usage": usage(10, 4, 8)}
    sent(splice, chunk({"tool_calls": [call(0, "a")]}), chunk({}, "tool_calls"), last)
    assert splice.completion_tokens == 4
    list(splice.next_turn())
    assert splice.completion_tokens is None
    *_, told = sent(splice, chunk({"content": "x"}), chunk({}, "stop"), last | {"usage": usage(20, 3, 12)})
    assert told["usage"] == usage(30, 7, 20)
    assert splice.completion_tokens == 7


def test_usage_that_the_client_did_not_ask_for_is_kept_from_it() -> None:
    splice = splice_of(hides_usage=True)
    told = sent(splice, chunk({"content": "x"}, usage=None), {"choices": [], "usage": usage(10, 4)})
    assert told == [chunk({"content": "x"}) | {"id": "ours"}]
    assert splice.completion_tokens == 4


def test_what_is_not_understood_is_passed_on() -> None:
    for odd in (
        [call(0, "a") | {"index": None}],
        [call(1, "a")],
        [call(0, "a"), call(0, "a") | {"function": {"name": "write"}}],
        [call(0, "a") | {"function": {"name": "read", "arguments": {"path": "a"}}}],
        [call(0, "a") | {"function": {"name": "read", "arguments": '{"path": '}}],
        [call(0, "a") | {"function": {"name": "read", "arguments": "[]"}}],
        "calls",
    ):
        splice = splice_of("a")
        told = sent(splice, chunk({"tool_calls": odd}), chunk({}, "tool_calls"))
        assert [one["choices"][0]["finish_reason"] for one in told] == [None, "tool_calls"], odd
        assert not splice.answered, odd
    two = {"choices": [chunk({})["choices"][0], chunk({})["choices"][0]]}
    splice = splice_of("a")
    assert sent(splice, two) == [two | {"id": "ours"}]


def test_a_turn_without_bound_is_not_kept() -> None:
    splice = splice_of("a")
    for _ in range(5):
        sent(splice, chunk({"content": "x" * 2**20}))
    sent(splice, chunk({"tool_calls": [call(0, "a")]}), chunk({}, "tool_calls"))
    assert not splice.answered
    assert splice._text == []
