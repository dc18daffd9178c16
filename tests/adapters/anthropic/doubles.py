"""A scripted endpoint in Anthropic's form for the real client, and tool loops by every way to ask it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
from anthropic import Anthropic, AsyncAnthropic

from agentrt import speculable
from agentrt.adapters.anthropic import run_tool
from agentrt.testing import mock_endpoint

URL = "http://model.test"
Script = list[list[tuple[str, dict[str, Any]]]]
TOOLS: Any = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
HI: Any = {"role": "user", "content": "hi"}
ASKED: Any = {"model": "m", "max_tokens": 64, "tools": TOOLS}


class Endpoint:
    """Answers turn by turn with the calls of ``script``, then with text. Results say which turn it is."""

    def __init__(
        self,
        script: Script,
        *,
        delay: float = 0.0,
        gate: Callable[[int], None] = lambda turn: None,
        holds_threads: bool = False,
    ) -> None:
        """``holds_threads``: it keeps conversations; without, it refuses to as the client expects."""
        self.holds_threads = holds_threads
        self.requests: list[dict[str, Any]] = []
        self._script = script
        self._delay = delay
        self._gate = gate

    @contextmanager
    def client(self) -> Iterator[Anthropic]:
        """A client that this endpoint answers inside the block."""
        with answered_by(self._answer), Anthropic(base_url=URL, api_key="none", max_retries=0) as client:
            yield client

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[AsyncAnthropic]:
        """An async client that this endpoint answers inside the block."""
        with answered_by(self._aanswer):
            async with AsyncAnthropic(base_url=URL, api_key="none", max_retries=0) as client:
                yield client

    def _answer(self, request: httpx.Request) -> httpx.Response:
        turn, response = self._respond(request)
        self._gate(turn)
        return response

    async def _aanswer(self, request: httpx.Request) -> httpx.Response:
        _, response = self._respond(request)
        await asyncio.sleep(self._delay)
        return response

    def _respond(self, request: httpx.Request) -> tuple[int, httpx.Response]:
        body = json.loads(request.content)
        self.requests.append(body)
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
        text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events(made, turn))
        return turn, httpx.Response(200, content=text, headers={"content-type": "text/event-stream"})


@contextmanager
def answered_by(side_effect: Callable[[httpx.Request], Any]) -> Iterator[None]:
    """Answer the requests for messages by ``side_effect``."""
    with mock_endpoint(assert_all_called=False) as router:
        router.post(path="/v1/messages").mock(side_effect=side_effect)
        yield


Made = list[tuple[str, dict[str, Any], str]]


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


def look_tool(seconds: float) -> Any:
    @speculable
    async def look(q: str, limit: int = 3) -> str:
        await asyncio.sleep(seconds)
        return f"found {q} {limit}"

    return look


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
    return (await answer.parse()).content  # type: ignore[misc]


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


async def plainly(client: Any, call: Any) -> Any:
    await asyncio.sleep(30)
    return f"found {call.input['q']} 3"


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
