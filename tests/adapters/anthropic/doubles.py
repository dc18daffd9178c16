"""A scripted endpoint in Anthropic's form for the real client, and tool loops by every way to ask it."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx
from anthropic import Anthropic, AsyncAnthropic

from agentrt.adapters.anthropic import run_tool
from tests.adapters.stainless.doubles import HI, STREAM, Script, ScriptedEndpoint, answered_client

URL = "http://model.test"
TOOLS: Any = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
ASKED: Any = {"model": "m", "max_tokens": 64, "tools": TOOLS}


async_client = functools.partial(answered_client, AsyncAnthropic, URL)


class Endpoint(ScriptedEndpoint):
    url = URL
    kinds = (Anthropic, AsyncAnthropic)

    def __init__(self, script: Script, *, holds_threads: bool = False, **settings: Any) -> None:
        """``holds_threads``: it keeps conversations; without, it refuses to as the client expects."""
        super().__init__(script, **settings)
        self.holds_threads = holds_threads

    def _respond(self, path: str, body: dict[str, Any]) -> tuple[int, httpx.Response]:
        if body.get("thread") and not self.holds_threads:
            details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
            error = {"type": "invalid_request_error", "message": "no threads", "details": details}
            return 0, httpx.Response(400, json={"type": "error", "error": error})
        contents = [message["content"] for message in body["messages"]]
        blocks = [block for content in contents if isinstance(content, list) for block in content]
        turn = sum(block["type"] == "tool_result" for block in blocks)
        if (body.get("thread") or {}).get("type") == "continue":  # one call a turn
            turn += int(body["thread"]["previous_message_id"].removeprefix("msg_"))
        calls = self._script[turn] if turn < len(self._script) else []
        made = [(name, arguments, f"id_{turn}_{place}") for place, (name, arguments) in enumerate(calls)]
        if not body.get("stream"):
            return turn, httpx.Response(200, json=message(made, turn))
        return turn, httpx.Response(200, content=sent(events(made, turn)), headers={"content-type": STREAM})


Made = list[tuple[str, dict[str, Any], str]]


def sent(steps: Iterable[dict[str, Any]]) -> str:
    """Return events as a stream has them."""
    return "".join(f"event: {step['type']}\ndata: {json.dumps(step)}\n\n" for step in steps)


def message(calls: Made, turn: int = 0) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": id, "name": name, "input": given} for name, given, id in calls]
    return {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content or [{"type": "text", "text": "done"}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def events(calls: Made, turn: int) -> Iterator[dict[str, Any]]:
    whole = message(calls, turn)
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        place = {"index": index}
        empty = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", **place, "content_block": {**block, **empty}}
        yield {"type": "ping"}
        if block["type"] == "text":
            yield {"type": "content_block_delta", **place, "delta": {"type": "text_delta", "text": "done"}}
        else:
            arguments = json.dumps(block["input"])
            for part in (arguments[:4], arguments[4:]):
                delta = {"type": "input_json_delta", "partial_json": part}
                yield {"type": "content_block_delta", **place, "delta": delta}
        yield {"type": "content_block_stop", **place}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


# The ways to ask a client for an answer; each returns its blocks.


async def create(client: AsyncAnthropic, history: list[Any]) -> Any:
    return (await client.messages.create(messages=history, **ASKED)).content


async def beta(client: AsyncAnthropic, history: list[Any]) -> Any:
    return (await client.beta.messages.create(messages=history, **ASKED)).content


async def parse(client: AsyncAnthropic, history: list[Any]) -> Any:
    return (await client.messages.parse(messages=history, **ASKED)).content


async def raw(client: AsyncAnthropic, history: list[Any]) -> Any:
    answer = await client.with_options(timeout=60).messages.with_raw_response.create(
        messages=history, **ASKED
    )
    parsed: Any = answer.parse()
    return (await parsed if inspect.isawaitable(parsed) else parsed).content  # before 1.0 it is no coroutine


async def streamed(client: AsyncAnthropic, history: list[Any]) -> Any:
    parts: list[Any] = []
    async for event in await client.messages.create(messages=history, stream=True, **ASKED):
        if event.type == "content_block_start":
            parts.append([event.content_block, ""])
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            parts[-1][1] += event.delta.partial_json
        elif event.type == "message_delta":  # many loops do not wait for the end of the stream
            break
    return [
        block.model_copy(update={"input": json.loads(text)} if text else {"text": "done"})
        for block, text in parts
    ]


async def stream_helper(client: AsyncAnthropic, history: list[Any]) -> Any:
    async with client.messages.stream(messages=history, **ASKED) as stream:
        return (await stream.get_final_message()).content


WAYS = [create, beta, parse, raw, streamed, stream_helper]


async def loop(client: AsyncAnthropic, ask: Callable[..., Any], run: Callable[..., Any]) -> list[Any]:
    """Run an agent's loop, which gives the client its own blocks back; return its history in plain."""
    history: list[Any] = [HI]
    while True:
        content = await ask(client, history)
        history.append({"role": "assistant", "content": content})
        calls = [block for block in content if block.type == "tool_use"]
        if not calls:
            kept = {"type", "id", "name", "input", "text"}
            for said in history[1::2]:
                said["content"] = [block.model_dump(include=kept) for block in said["content"]]
            return history
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": await run(client, call)}
            for call in calls
        ]
        history.append({"role": "user", "content": results})


def sync_results(client: Anthropic, is_streamed: bool, turns: int) -> list[Any]:
    """Run a loop of one call a turn on the sync client; return what its tools gave."""
    history, results = [HI], list[Any]()
    for _ in range(turns):
        if is_streamed:
            with client.messages.stream(messages=history, **ASKED) as stream:
                content: Any = stream.get_final_message().content
        else:
            content = client.messages.create(messages=history, **ASKED).content
        for call in content:
            if call.type == "tool_use":
                results.append(run_tool(client, call))
                given = [{"type": "tool_result", "tool_use_id": call.id, "content": results[-1]}]
                history += [{"role": "assistant", "content": content}, {"role": "user", "content": given}]
    return results
