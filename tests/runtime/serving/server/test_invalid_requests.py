"""Requests that no answer is made of: what is wrong with each is named as its sender calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_responses import TOOL

MANY_WORDS = "word " * 20_000
TOO_LONG = {"messages": [{"role": "user", "content": MANY_WORDS}]}
CALLED = {"role": "assistant", "content": None}
CALLS: Any = [
    {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call", "call_id": "b", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "12 C"},
]
ORPHAN = {"role": "tool", "tool_call_id": "call_0", "content": "12 C"}
ASKED: Any = CALLED | {
    "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
}
ANSWERED = ASKED | {"content": "It rains.", "tool_results": [{"tool_call_id": "call_0", "content": "12 C"}]}
CHAT = {"model": "nano", "messages": HELLO, "max_tokens": 10}

Case = tuple[str, dict[str, Any], str | None, str]


def cases(path: str, body: dict[str, Any], *changes: Any) -> Iterator[Case]:
    """Each change of the body, the field that is named, and a code or words of the error."""
    for change, param, *says in changes:
        yield path, body | change, param, *(says or [""])


INVALID: list[Case] = [
    *cases(
        "/v1/chat/completions",
        CHAT,
        ({"model": "no-such-model"}, "model", "model_not_found"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "Hello"}, "messages", "invalid_type"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [3]}, "messages[0]", "invalid_value"),
        ({"messages": [*HELLO, ORPHAN]}, "messages[1].tool_call_id", "Send the assistant's message"),
        ({"messages": [ORPHAN, ASKED, *HELLO]}, "messages[0].tool_call_id", "no call before it"),
        ({"messages": [ASKED, ORPHAN, ANSWERED, {"role": "x"}]}, "messages[3].role", "invalid_value"),
        (
            {"messages": [ASKED | {"content": "", "tool_calls": 7}, ORPHAN]},
            "messages[1].tool_call_id",
            "no call before it",
        ),
        (TOO_LONG, "messages", "context_length_exceeded"),
        ({"max_tokens": -1}, "max_tokens", "invalid_value"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "invalid_value"),
        ({"temperature": 9e9}, "temperature", "invalid_type"),
        ({"top_p": 0}, "top_p", "invalid_type"),
        ({"tool_seconds": {"a": -1}}, "tool_seconds.a", "invalid_type"),
        ({"tool_seconds": {"a": 1e9}}, "tool_seconds.a", "invalid_type"),
        ({"tool_seconds": dict.fromkeys(map(str, range(257)), 1)}, "tool_seconds", "invalid_type"),
        ({"n": 1000}, "n", "invalid_type"),
        ({"seed": -1}, "seed", "invalid_value"),
        ({"stop": ["", "x"]}, "stop", "invalid_value"),
        ({"stop": list("abcdefghijklmnopqrstuvwxyz")}, "stop", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_type"),
        ({"presence_penalty": 2.5}, "presence_penalty", "invalid_type"),
        ({"frequency_penalty": "1"}, "frequency_penalty", "invalid_type"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x.[key]", "invalid_type"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"tools": [{"type": "function"}]}, "tools[0]", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format", "invalid_value"),
        ({"prediction": "text"}, "prediction", "invalid_type"),
        ({"prediction": {"type": "text", "content": "x"}}, "prediction", "invalid_value"),
        ({"prediction": {"type": "content", "content": 7}}, "prediction.content", "invalid_value"),
        ({"service_tier": "gold"}, "service_tier", "invalid_type"),
        ({"modalities": ["audio"]}, "modalities[0]", "invalid_type"),
    ),
    *cases(
        "/v1/chat/completions",
        CHAT | {"functions": [{"name": "get_weather"}]},
        ({"tools": []}, "functions"),
        ({"functions": "get_weather"}, "functions"),
        ({"functions": [{"name": ""}]}, "functions[0].name"),
        ({"functions": [{"name": "a"}, {"name": "a"}]}, "functions[1].name"),
        ({"functions": [{"name": "a", "parameters": 7}]}, "functions[0].parameters"),
        ({"function_call": {"name": "no_such_function"}}, "function_call"),
        ({"messages": [CALLED | {"function_call": {"name": ""}}]}, "messages[0].function_call.name"),
        ({"messages": [CALLED | {"function_call": 7}]}, "messages[0].function_call"),
        ({"messages": [*HELLO, {"role": "function", "name": "a", "content": "x"}]}, "messages[1]"),
        ({"messages": [CALLED | {"tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0]"),
        ({"function_call": 7}, "function_call"),
    ),
    *cases(
        "/v1/completions",
        {"prompt": "Hello"},
        ({"prompt": None}, "prompt", "string"),
        ({"prompt": ""}, "prompt", "no tokens"),
        ({"prompt": []}, "prompt", "empty"),
        ({"prompt": [None]}, "prompt[0]", "no list of token ids"),
        ({"prompt": [1.5]}, "prompt[0]", "no list of token ids"),
        ({"prompt": [1, 10**9]}, "prompt[1]", "no token of this model"),
        ({"prompt": ["Hi", [1, True]]}, "prompt[1][1]", "no token of this model"),
        ({"prompt": [[]]}, "prompt[0]", "no tokens"),
        ({"prompt": ["Hi", MANY_WORDS], "n": 2}, "prompt[1]", "Shorten the prompt, or use a model"),
        ({"prompt": ["x"] * 17}, "prompt", "more than 16 answers"),
        ({"prompt": ["x"] * 6, "n": 3}, "prompt", "more than 16 answers"),
        ({"prompt": MANY_WORDS}, "prompt", "holds"),
        ({"prompt": [5] * 20000}, "prompt", "holds"),
        ({"suffix": "}"}, "suffix", "filling in the middle"),
        ({"best_of": 2}, "best_of", "set n"),
        ({"echo": True, "logprobs": 1}, "echo", "log probabilities"),
        ({"logprobs": 21}, "logprobs", "20"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"frequency_penalty": 3}, "frequency_penalty", "2"),
    ),
    *cases(
        "/v1/responses",
        {"input": "Hello!"},
        ({"input": []}, "input"),
        ({"input": " "}, "input"),
        ({"input": MANY_WORDS}, "input"),
        ({"instructions": MANY_WORDS}, "input"),
        ({"input": 3}, "input"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0]"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [*CALLS, {"role": "wizard", "content": "x"}], "instructions": "Help."}, "input[3].role"),
        ({"input": [*CALLS, {**CALLS[1], "name": ""}]}, "input[3].name"),
        ({"input": [{**CALLS[0], "arguments": "{"}]}, "input[0].arguments"),
        ({"input": [*CALLS, {**CALLS[1], "arguments": "[]"}]}, "input[3].arguments"),
        ({"input": [*CALLS, {**CALLS[1], "call_id": 7}]}, "input[3].call_id"),
        ({"input": [*CALLS, {**CALLS[2], "output": None}]}, "input[3].output"),
        ({"input": [*CALLS, {**CALLS[2], "call_id": 7}]}, "input[3].call_id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": "yes"}, "background"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 1 << 20, "include": ["message.output_text.logprobs"]}, "include"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {"type": "bogus"}}}}, "text.format"),
        ({"tools": [TOOL | {"name": ""}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        (
            {"tools": [{"type": "file_search"}]},
            "tools[0]",
            "no tool 'file_search' in this server. Give functions:",
        ),
        ({"tools": [TOOL, {"type": "mcp", "server_label": "x"}]}, "tools[1]", "Give functions: {'type'"),
        ({"tools": [{}]}, "tools[0]", "it has no type. Give functions: {'type'"),
        ({"tools": ["any"]}, "tools[0]", "it has no type. Give functions: {'type'"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}},
            "tool_choice",
            "{'type': 'function', 'name'",
        ),
        ({"tools": [TOOL], "tool_choice": {}}, "tool_choice", "{'type': 'function', 'name'"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice", "{'type': 'function', 'name'"),
        ({"conversation": "x_1"}, "conversation", "none here. Send previous_response_id, or the whole"),
        ({"tool_choice": {"type": "function", "name": "x"}, "tools": [TOOL]}, "tool_choice"),
    ),
    *cases(
        "/v1/contexts",
        {},
        ({"system_prompt": 7}, "system_prompt"),
        ({"system_prompt": MANY_WORDS}, "system_prompt"),
    ),
    *cases(
        "/v1/contexts/{id}/chat/completions",
        {"messages": HELLO},
        ({"messages": []}, "messages"),
        ({"n": 2}, "n"),
        ({"messages": [*HELLO, ORPHAN]}, "messages[1].tool_call_id"),
        ({"messages": [ORPHAN]}, "messages[0].tool_call_id"),
        ({"temperature": "hot"}, "temperature"),
        (TOO_LONG, "messages"),
    ),
    *cases(
        "/tokenize",
        {},
        ({}, None),
        ({"prompt": "x", "messages": HELLO}, None, "give either prompt or messages."),
        ({"prompt": ""}, "prompt"),
        ({"prompt": MANY_WORDS}, "prompt"),
        ({"messages": []}, "messages"),
        ({"messages": HELLO, "tools": [3]}, "tools[0]"),
        ({"messages": HELLO, "add_generation_prompt": False}, "add_generation_prompt"),
        ({"prompt": "x", "model": "none"}, "model"),
    ),
    *cases(
        "/detokenize",
        {},
        ({}, "tokens"),
        ({"tokens": [0, -1]}, "tokens[1]"),
        ({"tokens": [10**9]}, "tokens[0]"),
        ({"tokens": [True]}, "tokens[0]"),
        ({"tokens": [1], "model": "none"}, "model"),
    ),
]


@pytest.mark.parametrize(("path", "body", "param", "says"), INVALID)
def test_what_is_wrong_is_named(
    http: httpx.Client, path: str, body: dict[str, Any], param: str | None, says: str
) -> None:
    if "{id}" in path:
        path = path.format(**http.post("/v1/contexts", json={}).json())
    for stream in (False, True):
        response = http.post(path, json={"stream": stream} | body)
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (404 if param == "model" else 400, param)
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert says in response.text
