"""Bodies that real clients send: the OpenAI SDK and LangChain, each against an engine that refuses all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from .wire import Request, post

_WEATHER: Final[Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
        },
    },
}
_QUESTION: Final[Any] = {"role": "user", "content": "What is the weather in Oslo?"}
_CALL: Final[Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
        }
    ],
}
_OUTPUT: Final[Any] = {"role": "tool", "tool_call_id": "call_1", "content": "12 C, rain"}
_SCHEMA: Final[Any] = {
    "type": "object",
    "properties": {"good": {"type": "boolean"}, "why": {"type": "string", "maxLength": 20}},
    "required": ["good", "why"],
    "additionalProperties": False,
}


def record_bodies() -> list[Request]:
    """Return the requests that the clients have sent, in order."""
    recorded: list[Request] = []
    with _recording(recorded) as url:
        for use in (_use_openai, _use_langchain):
            use(url)
    return recorded


@contextmanager
def _recording(recorded: list[Request]) -> Iterator[str]:
    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            recorded.append(post(f"mutated body of a client for {self.path}", self.path, content))
            refusal = {"message": "recorded", "type": "invalid_request_error", "param": None, "code": None}
            body = json.dumps({"error": refusal}).encode()
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def _use_openai(url: str) -> None:
    import openai

    chat: dict[str, Any] = {"model": "nano", "messages": [_QUESTION], "max_tokens": 4}
    answered = [_QUESTION, _CALL, _OUTPUT]
    json_schema = {"type": "json_schema", "json_schema": {"name": "v", "schema": _SCHEMA, "strict": True}}
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello!"}]}]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    flat = {"type": "function", **_WEATHER["function"], "strict": False}
    response: dict[str, Any] = {"model": "nano", "input": "Hello!", "max_output_tokens": 4}
    items = [_QUESTION, {"type": "function_call_output", "call_id": "call_1", "output": "12 C"}]
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        create: Callable[..., object] = client.chat.completions.create
        respond: Callable[..., object] = client.responses.create
        continue_prompt: Callable[..., object] = client.completions.create
        for more in (
            {},
            {"stream": True, "stream_options": {"include_usage": True}},
            {"tools": [_WEATHER], "tool_choice": "auto", "parallel_tool_calls": False},
            {"messages": answered, "tools": [_WEATHER], "tool_choice": "required", "stream": True},
            {"response_format": json_schema, "seed": 1},
            {
                "logprobs": True,
                "top_logprobs": 3,
                "n": 2,
                "stop": ["\n", "."],
                "temperature": 0.7,
                "top_p": 0.9,
            },
            {"messages": parts, "presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": -100}},
            {"messages": [{"role": "user", "content": [image]}]},
            {"prediction": {"type": "content", "content": "Hello"}, "service_tier": "flex", "user": "me"},
            {"functions": [_WEATHER["function"]], "function_call": {"name": "get_weather"}},
        ):
            with suppress(openai.APIError):
                create(**{**chat, **more})
        older: dict[str, Any] = {"model": "nano", "prompt": "Hello!", "max_tokens": 4}
        for more in (
            {"stream": True, "stream_options": {"include_usage": True}},
            {"prompt": ["Hello!", "Hi"], "n": 2, "logprobs": 2, "stop": ["."], "logit_bias": {"5": 1}},
            {"prompt": [5, 6, 7], "echo": True, "suffix": "}", "best_of": 2},
        ):
            with suppress(openai.APIError):
                continue_prompt(**{**older, **more})
        for form in ("float", "base64"):
            with suppress(openai.APIError):
                client.embeddings.create(model="nano", input=["Hello!", "Hi"], encoding_format=form)
        for more in (
            {},
            {"stream": True, "instructions": "Be brief.", "metadata": {"a": "b"}},
            {"input": items, "tools": [flat], "tool_choice": {"type": "function", "name": "get_weather"}},
            {"text": {"format": {"type": "json_schema", "name": "v", "schema": _SCHEMA}}, "store": False},
            {"previous_response_id": "resp_00", "truncation": "auto", "reasoning": {"effort": "low"}},
        ):
            with suppress(openai.APIError):
                respond(**{**response, **more})


def _use_langchain(url: str) -> None:
    import openai
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    call: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
    history = [
        SystemMessage("You help."),
        HumanMessage("What is the weather in Oslo?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("12 C, rain", tool_call_id="call_1"),
    ]
    options: Any = {"base_url": url, "api_key": "none", "model": "nano", "max_retries": 0}
    for more in ({}, {"use_responses_api": True}, {"temperature": 0.2, "stop": ["\n"]}):
        chat = ChatOpenAI(**options, max_completion_tokens=4, **more)
        for model in (chat, chat.bind_tools([_WEATHER]), chat.with_structured_output(_named(_SCHEMA))):
            with suppress(openai.APIError):
                model.invoke(history)
            with suppress(openai.APIError):
                list(model.stream(history))


def _named(schema: dict[str, Any]) -> dict[str, Any]:
    return {"title": "Verdict", "description": "A verdict.", **schema}
