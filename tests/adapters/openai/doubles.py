"""A scripted OpenAI endpoint for the real client: both APIs, whole and streamed."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import httpx
from openai import AsyncOpenAI, OpenAI

from tests.adapters.stainless.doubles import STREAM, ScriptedEndpoint, answered_client

URL = "http://model.test/v1"

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
RESPONSES_TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}]


async_client = functools.partial(answered_client, AsyncOpenAI, URL)


class Endpoint(ScriptedEndpoint):
    url = URL
    kinds = (OpenAI, AsyncOpenAI)

    def _respond(self, path: str, body: dict[str, Any]) -> tuple[int, httpx.Response]:
        chat = path.endswith("/chat/completions")
        items = body["messages"] if chat else body["input"]
        results = sum(
            item.get("role") == "tool" or item.get("type") == "function_call_output"
            for item in items
            if isinstance(item, dict)
        )
        if previous := body.get("previous_response_id"):  # which says how far the conversation was
            results += sum(map(len, self._script[: int(previous.removeprefix("resp_"))]))
        turn = 0
        while turn < len(self._script) and results >= sum(map(len, self._script[: turn + 1])):
            turn += 1
        calls = (
            [
                (name, json.dumps(arguments), f"id_{turn}_{number}")
                for number, (name, arguments) in enumerate(self._script[turn])
            ]
            if turn < len(self._script)
            else []
        )
        if body.get("stream"):
            events = chat_events(calls) if chat else response_events(turn, calls)
            text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            headers = {"content-type": STREAM}
            return turn, httpx.Response(200, content=text + "data: [DONE]\n\n" * chat, headers=headers)
        return turn, httpx.Response(200, json=chat_completion(calls) if chat else response(turn, calls))


def chat_completion(calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments, id in calls
    ]
    message = {"role": "assistant", "content": None if calls else "done", "tool_calls": made or None}
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def chat_events(calls: list[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "done" * (not calls)}]
    for index, (name, arguments, id) in enumerate(calls):
        begun = {"index": index, "id": id, "type": "function"}
        deltas.append({"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]})
        for part in (arguments[:4], arguments[4:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}


def response(turn: int, calls: list[tuple[str, str, str]], status: str = "completed") -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"f{id}", "call_id": id, "name": name, "arguments": arguments}
        for name, arguments, id in calls
    ]
    if not calls:
        content = [{"type": "output_text", "text": "done", "annotations": []}]
        output = [{"type": "message", "id": "m", "role": "assistant", "status": status, "content": content}]
    return {
        "id": f"resp_{turn}",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": status,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def response_events(turn: int, calls: list[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    whole = response(turn, calls)
    numbered = iter(range(10**6))

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "sequence_number": next(numbered), **fields}

    yield event("created", response={**whole, "status": "in_progress", "output": []})
    for index, item in enumerate(whole["output"]):
        if item["type"] == "message":
            yield event("output_item.added", output_index=index, item={**item, "content": []})
            part = {"type": "output_text", "text": "", "annotations": []}
            yield event("content_part.added", output_index=index, item_id="m", content_index=0, part=part)
            place = {"output_index": index, "item_id": "m", "content_index": 0}
            yield event("output_text.delta", delta="done", logprobs=[], **place)
        else:
            yield event("output_item.added", output_index=index, item={**item, "arguments": ""})
            place = {"output_index": index, "item_id": item["id"]}
            for part in (item["arguments"][:4], item["arguments"][4:]):
                yield event("function_call_arguments.delta", delta=part, **place)
            yield event(
                "function_call_arguments.done", arguments=item["arguments"], name=item["name"], **place
            )
        yield event("output_item.done", output_index=index, item=item)
    yield event("completed", response=whole)
