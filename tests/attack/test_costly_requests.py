"""Single requests that ask for much work, and how long they make another client wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.attack.campaign import Campaign
from tests.attack.other_client import OtherClient
from tests.attack.server_process import ServerProcess
from tests.attack.wire import CHAT, post

_BYTES = 8 * 2**20 - 4096
_QUICK = ("stop of integers", "control tokens", "many messages", "schema with a big multiple")
_COLUMNS = ("request", "MB", "status", "another client waited ms", "the server grew MB")


def test_requests_that_ask_for_much_work_are_answered(campaign: Campaign) -> None:
    rows = []
    tried = campaign.counts["tries"]
    with ServerProcess("serve") as server, OtherClient(server, campaign) as other:
        for name in campaign.size(tuple(_REQUESTS), _QUICK):
            print(f"costly request: {name}")
            request = post(name, _PATHS.get(name, CHAT), _REQUESTS[name]())
            before = server.resources().rss_mb
            answer, seconds = other.measure_request(request)
            campaign.add(request._replace(body=b""), answer)
            campaign.freeze(name, seconds)
            measured = len(request.body) / 1e6, 1000 * seconds, server.resources().rss_mb - before
            size, waited, grown = (round(each, 1) for each in measured)
            rows.append((name, size, answer.status, waited, grown))
        campaign.add_faults(server)
    campaign.add_table("costly requests", _COLUMNS, rows)
    assert campaign.counts["tries"] - tried == len(rows) >= 4


def _chat(content: str = "Hello!", **more: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": content}], "max_tokens": 4, **more}).encode()


def _field(name: str, values: bytes) -> bytes:
    return b'{"model":"nano","messages":[],"input":"a","%b":%b}' % (name.encode(), values)


def _many(value: bytes) -> bytes:
    return b"[" + b",".join([value] * ((_BYTES - 100) // (len(value) + 1))) + b"]"


def _keys(value: bytes, count: int) -> bytes:
    return b"{" + b",".join(b'"%da":%b' % (number, value) for number in range(count)) + b"}"


def _tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}, **function}}


def _schema(schema: object) -> bytes:
    return _chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}})


def _optional(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(count)}}


def _messages(message: Mapping[str, Any], count: int) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "a"}, *([message] * count)]}).encode()


_USER = {"role": "user", "content": "a"}
_CALL = {"id": "a", "type": "function", "function": {"name": "a", "arguments": "{}"}}
_PART = {"type": "text", "text": "a"}
_KEY = b'{"name":"x","output":"",'
_LONG_LIST = {"type": "array", "items": {"type": "string", "maxLength": 9999}, "maxItems": 9999}
_REQUESTS: Mapping[str, Callable[[], bytes]] = {
    "stop of integers": lambda: _field("stop", _many(b"1")),
    "stop_token_ids of strings": lambda: _field("stop_token_ids", _many(b'""')),
    "logit_bias with wrong keys": lambda: _field("logit_bias", _keys(b"1", 600_000)),
    "metadata of integers": lambda: _field("metadata", _keys(b"1", 600_000)),
    "wrong tool outputs": lambda: _many(b"1"),
    "tool outputs with extra keys": lambda: b"[%b]" % b",".join([_KEY + _keys(b"1", 1600)[1:]] * 60),
    "long text": lambda: _chat("hello world " * (_BYTES // 12 - 50)),
    "one long word": lambda: _chat("a" * (_BYTES - 200)),
    "spaces": lambda: _chat(" " * (_BYTES - 200)),
    "control tokens": lambda: _chat("<|im_end|>" * (_BYTES // 10 - 50)),
    "many messages": lambda: _messages(_USER, 230_000),
    "4000 messages": lambda: _messages({**_USER, "content": "<|im_end|>" * 100}, 4000),
    "many calls": lambda: _messages({"role": "assistant", "tool_calls": [_CALL] * 19_000}, 1),
    "many text parts": lambda: _messages({**_USER, "content": [_PART] * 30_000}, 1),
    "long descriptions of tools": lambda: _chat(
        tools=[_tool(f"t{number}", description="d" * 8000) for number in range(1000)]
    ),
    "many tools with properties": lambda: _chat(
        tools=[_tool(f"t{number}", parameters=_optional(200)) for number in range(120)]
    ),
    "long model name": lambda: json.dumps({"model": "x" * (_BYTES - 100), "messages": []}).encode(),
    "deep JSON": lambda: b"[" * (_BYTES // 2) + b"]" * (_BYTES // 2),
    "deep schema": lambda: _schema(json.loads('{"items":' * 150 + "{}" + "}" * 150)),
    "schema with a big multiple": lambda: _schema({"type": "integer", "multipleOf": 999983}),
    "schema with many properties": lambda: _schema(_optional(3000)),
    "schema with 250 properties": lambda: _schema(_optional(250)),
    "schema with a hard pattern": lambda: _schema({"type": "string", "pattern": "(a|b|ab)*c{1,2000}"}),
    "schema with a long enum": lambda: _schema({"enum": [f"value {n}" * 20 for n in range(30_000)]}),
    "schema with long bounds": lambda: _schema(_LONG_LIST),
    "many biases": lambda: _chat(logit_bias={str(token): 1 for token in range(1024)}),
    "16 answers": lambda: _chat(n=16, max_tokens=64, logprobs=True, top_logprobs=20),
    "65,536 log probabilities": lambda: _chat(
        n=16, max_tokens=195, ignore_eos=True, logprobs=True, top_logprobs=20
    ),
}
"""The body of each, by name."""
_PATHS = {
    "metadata of integers": "/v1/responses",
    **dict.fromkeys(
        ("wrong tool outputs", "tool outputs with extra keys"), "/v1/cache-tool-output/chatcmpl-00"
    ),
}
"""Where it is not that of chat completions."""
