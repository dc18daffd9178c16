"""Bodies that the OpenAI SDK and LangChain send, each to an engine that refuses all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx2
import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI

from tests.attack.wire import Request, post

_FUNCTION: Mapping[str, Any] = {
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    },
}
_WEATHER: Any = {"type": "function", "function": _FUNCTION}
_QUESTION: Any = {"role": "user", "content": "What is the weather in Oslo?"}
_CALL: Any = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
_ANSWERED = [
    _QUESTION,
    {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": _CALL}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "12 C, rain"},
]
_SCHEMA: Any = {
    "title": "Verdict",
    "description": "A verdict.",
    "type": "object",
    "properties": {"good": {"type": "boolean"}, "why": {"type": "string", "maxLength": 20}},
    "required": ["good", "why"],
    "additionalProperties": False,
}
_FORM: Any = {"type": "json_schema", "json_schema": {"name": "v", "schema": _SCHEMA, "strict": True}}
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
_CHATS: tuple[dict[str, Any], ...] = (
    {},
    {"stream": True, "stream_options": {"include_usage": True}},
    {"tools": [_WEATHER], "tool_choice": "auto", "parallel_tool_calls": False},
    {"messages": _ANSWERED, "tools": [_WEATHER], "tool_choice": "required", "stream": True},
    {"response_format": _FORM, "seed": 1},
    {"logprobs": True, "top_logprobs": 3, "n": 2, "stop": ["\n", "."], "temperature": 0.7, "top_p": 0.9},
    {"presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": -100}},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello!"}]}]},
    {"messages": [{"role": "user", "content": [_IMAGE]}]},
    {"prediction": {"type": "content", "content": "Hello"}, "service_tier": "flex", "user": "me"},
    {"functions": [_FUNCTION], "function_call": {"name": "get_weather"}},
)
_COMPLETIONS: tuple[dict[str, Any], ...] = (
    {"stream": True, "stream_options": {"include_usage": True}},
    {"prompt": ["Hello!", "Hi"], "n": 2, "logprobs": 2, "stop": ["."], "logit_bias": {"5": 1}},
    {"prompt": [5, 6, 7], "echo": True, "suffix": "}", "best_of": 2},
)
_ITEMS = [_QUESTION, {"type": "function_call_output", "call_id": "call_1", "output": "12 C"}]
_CHOICE = {"type": "function", "name": "get_weather"}
_RESPONSES: tuple[dict[str, Any], ...] = (
    {},
    {"stream": True, "instructions": "Be brief.", "metadata": {"a": "b"}},
    {"input": _ITEMS, "tools": [{"type": "function", **_FUNCTION, "strict": False}], "tool_choice": _CHOICE},
    {"text": {"format": {"type": "json_schema", "name": "v", "schema": _SCHEMA}}, "store": False},
    {"previous_response_id": "resp_00", "truncation": "auto", "reasoning": {"effort": "low"}},
)


def record_bodies() -> list[Request]:
    """Return the requests that the clients have sent, in order."""
    recorded: list[Request] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        recorded.append(post(f"mutated body of a client for {path}", path, request.content))
        error = {"message": "recorded", "type": "invalid_request_error", "param": None, "code": None}
        return httpx2.Response(400, json={"error": error})

    with httpx2.Client(transport=httpx2.MockTransport(refuse)) as http:
        to: dict[str, Any] = {
            "base_url": "http://x/v1",
            "api_key": "a",
            "max_retries": 0,
            "http_client": http,
        }
        client: Any = openai.OpenAI(**to)
        asked = {"model": "nano", "messages": [_QUESTION], "max_tokens": 4}
        prompted = {"model": "nano", "prompt": "Hello!", "max_tokens": 4}
        given = {"model": "nano", "input": "Hello!", "max_output_tokens": 4}
        for more in _CHATS:
            _try(client.chat.completions.create, **{**asked, **more})
        for more in _COMPLETIONS:
            _try(client.completions.create, **{**prompted, **more})
        for form in ("float", "base64"):
            _try(client.embeddings.create, model="nano", input=["Hello!", "Hi"], encoding_format=form)
        for more in _RESPONSES:
            _try(client.responses.create, **{**given, **more})
        _use_langchain({**to, "model": "nano", "max_completion_tokens": 4})
    return recorded


def _use_langchain(options: Mapping[str, Any]) -> None:
    call: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
    history = [
        SystemMessage("You help."),
        HumanMessage("What is the weather in Oslo?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("12 C, rain", tool_call_id="call_1"),
    ]
    for more in ({}, {"use_responses_api": True}, {"temperature": 0.2, "stop": ["\n"]}):
        chat: Any = ChatOpenAI(**options, **more)
        for model in (chat, chat.bind_tools([_WEATHER]), chat.with_structured_output(_SCHEMA)):
            _try(model.invoke, history)
            _try(lambda model=model: list(itertools.islice(model.stream(history), 1)))


def _try(send: Callable[..., object], *arguments: Any, **options: Any) -> None:
    with suppress(openai.APIError):
        send(*arguments, **options)
