"""Bodies as OpenAI's client and LangChain send them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.attack.wire import CHAT, Request, post

_SCHEMA: Any = {
    "title": "Verdict",
    "description": "A verdict.",
    "type": "object",
    "properties": {"good": {"type": "boolean"}, "why": {"type": "string", "maxLength": 20}},
    "required": ["good", "why"],
    "additionalProperties": False,
}
_WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    },
}
_TOOLS = [{"type": "function", "function": _WEATHER}]
_QUESTION: Any = {"role": "user", "content": "What is the weather in Oslo?"}
_CALL: Any = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
_ANSWERED = [
    {"role": "system", "content": "You help."},
    _QUESTION,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": _CALL}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "12 C, rain"},
]
_FORM: Any = {"type": "json_schema", "json_schema": {"name": "v", "schema": _SCHEMA, "strict": True}}
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
_ITEMS = [_QUESTION, {"type": "function_call_output", "call_id": "c", "output": "12 C"}]
_CHOICE = {"type": "function", "name": "get_weather"}
_BODIES: Mapping[str, tuple[dict[str, Any], tuple[dict[str, Any], ...]]] = {
    CHAT: (
        {"model": "nano", "messages": [_QUESTION], "max_tokens": 4},
        (
            {},
            {"stream": True, "stream_options": {"include_usage": True}},
            {"tools": _TOOLS, "tool_choice": "auto", "parallel_tool_calls": False},
            {"messages": _ANSWERED, "tools": _TOOLS, "tool_choice": "required", "stream": True},
            {"messages": _ANSWERED, "response_format": _FORM, "seed": 1, "max_completion_tokens": 4},
            {"logprobs": True, "top_logprobs": 3, "n": 2, "stop": ["\n", "."], "temperature": 0.7},
            {"presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": -100}, "top_p": 0.9},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello!"}]}]},
            {"messages": [{"role": "user", "content": [_IMAGE]}]},
            {"prediction": {"type": "content", "content": "Hello"}, "service_tier": "flex", "user": "me"},
            {"functions": [_WEATHER], "function_call": {"name": "get_weather"}},
        ),
    ),
    "/v1/completions": (
        {"model": "nano", "prompt": "Hello!", "max_tokens": 4},
        (
            {"stream": True, "stream_options": {"include_usage": True}},
            {"prompt": ["Hello!", "Hi"], "n": 2, "logprobs": 2, "stop": ["."], "logit_bias": {"5": 1}},
            {"prompt": [5, 6, 7], "echo": True, "suffix": "}", "best_of": 2},
        ),
    ),
    "/v1/embeddings": (
        {"model": "nano", "input": ["Hello!", "Hi"]},
        ({"encoding_format": "float"}, {"encoding_format": "base64"}),
    ),
    "/v1/responses/compact": (
        {"model": "nano", "input": _ITEMS},
        ({"instructions": "Be brief."}, {"previous_response_id": "resp_00", "service_tier": "flex"}),
    ),
    "/v1/responses": (
        {"model": "nano", "input": "Hello!", "max_output_tokens": 4},
        (
            {},
            {"stream": True, "instructions": "Be brief.", "metadata": {"a": "b"}},
            {"input": _ITEMS, "tools": [{**_CHOICE, **_WEATHER, "strict": False}], "tool_choice": _CHOICE},
            {"text": {"format": {"type": "json_schema", "name": "v", "schema": _SCHEMA}}, "store": False},
            {"input": [{"type": "item_reference", "id": "msg_00"}], "stream_options": {}},
            {"input": [{"type": "compaction", "id": "cmp_00", "encrypted_content": "agentrt1.SGk="}]},
            {"previous_response_id": "resp_00", "truncation": "auto", "reasoning": {"effort": "low"}},
        ),
    ),
}


def client_requests() -> Iterator[Request]:
    """Yield a request for each body."""
    for path, (body, changes) in _BODIES.items():
        for more in changes:
            yield post(f"mutated body of a client for {path}", path, body | more)
