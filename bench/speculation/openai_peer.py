"""OpenAI's eager tool runner against a raw loop with speculation, on the same streamed responses."""

from __future__ import annotations

import asyncio
import functools
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
from openai import AsyncOpenAI
from openai.lib.responses_tool_runner import AsyncRegisteredFunction, AsyncResponsesToolRunner

from agentrt.calls import ToolCall
from agentrt.concurrency.clock import monotonic

from .timed_agents import (
    CALLS_SHARE,
    RIGHT,
    SAME_INFORMATION,
    SIMULATED_DRAFTS,
    Sides,
    SimulatedPredictor,
    TimedWorld,
)

EAGER_RUNNER = "openai eager runner"


class _Endpoint:
    """Endpoint that streams a task's answers over their generation time, as the Responses API does."""

    def __init__(self, world: TimedWorld) -> None:
        self._world = world

    def client(self) -> AsyncOpenAI:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        return AsyncOpenAI(api_key="unused", base_url="http://peer/v1", http_client=http, max_retries=0)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        items = json.loads(request.content)["input"]
        asked = next(item["content"] for item in items if item.get("role") == "user")
        made, turn = sum(item.get("type") == "function_call" for item in items), 0
        while made > 0:
            made -= len(self._world.calls(asked, turn))
            turn += 1
        content = self._events(f"r{uuid.uuid4().hex}", self._world.calls(asked, turn))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)

    async def _events(self, id: str, calls: Sequence[ToolCall]) -> AsyncIterator[bytes]:
        began, number = monotonic(), 0
        output: list[dict[str, Any]] = []

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return f"data: {json.dumps({'type': kind, 'sequence_number': number, **fields})}\n\n".encode()

        def response(status: str) -> dict[str, Any]:
            told = {"id": id, "object": "response", "created_at": 0, "model": "m", "status": status}
            return {**told, "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}

        async def at(share: float) -> None:
            await asyncio.sleep(began + share * self._world.times.generation - monotonic())

        share = CALLS_SHARE / max(1, len(calls))
        yield event("response.created", response=response("in_progress"))
        for index, call in enumerate(calls):
            await at(1 - share * (len(calls) - index))
            text = json.dumps(call.arguments)
            item = {"type": "function_call", "id": f"f{id}_{index}", "call_id": f"c{id}_{index}",
                    "name": call.name, "arguments": text, "status": "completed"}  # fmt: skip
            place = {"output_index": index, "item_id": item["id"]}
            begun = {**item, "arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=index, item=begun)
            await at(1 - share * (len(calls) - index - 1))
            yield event("response.function_call_arguments.delta", delta=text, **place)
            yield event("response.function_call_arguments.done", arguments=text, name=call.name, **place)
            yield event("response.output_item.done", output_index=index, item=item)
            output.append(item)
        if not calls:
            content = [{"type": "output_text", "text": "done", "annotations": []}]
            message = {"type": "message", "id": f"m{id}", "role": "assistant", "status": "completed"}
            output.append({**message, "content": content})
            await at(1)
            yield event("response.output_item.added", output_index=0, item={**output[0], "content": []})
            yield event("response.output_item.done", output_index=0, item=output[0])
        yield event("response.completed", response=response("completed"))


def openai_sides(world: TimedWorld) -> Sides:
    """Return the eager runner, and ours without and with simulated drafts.

    A transcript is the last answer and the calls in the order in which they were made.
    """
    from agentrt.adapters.openai import speculate
    from agentrt.speculators import StreamSpeculator

    client = _Endpoint(world).client()
    parameters = {"type": "object", "properties": {}, "additionalProperties": True}
    schemas: list[Any] = [
        {"type": "function", "name": tool.name, "parameters": parameters, "strict": False}
        for tool in world.tools
    ]
    stream = speculate(client, [StreamSpeculator()], tools=world.tools)
    drafts = speculate(client, [SimulatedPredictor(world, RIGHT), StreamSpeculator()], tools=world.tools)
    return {
        EAGER_RUNNER: functools.partial(_by_runner, client, schemas, world),
        SAME_INFORMATION: functools.partial(_by_agentrt, stream, schemas),
        SIMULATED_DRAFTS: functools.partial(_by_agentrt, drafts, schemas),
    }


async def _by_runner(client: AsyncOpenAI, schemas: Sequence[Any], world: TimedWorld, request: str) -> Any:
    made: list[Any] = []

    def registered(schema: Any) -> AsyncRegisteredFunction:
        async def execute(arguments: dict[str, object]) -> str:
            made.append((schema["name"], arguments))
            return await world.run(schema["name"], arguments)

        return AsyncRegisteredFunction(schema, execute, independent=True)

    runner = AsyncResponsesToolRunner(functions=[registered(schema) for schema in schemas])
    parameters: Any = {"model": "m", "input": [{"role": "user", "content": request}]}
    response = await runner.run(
        client, parameters, max_steps=20, stream=True, eager=True, max_concurrent_calls=8
    )
    return response.output_text, made


async def _by_agentrt(client: Any, schemas: Sequence[Any], request: str) -> Any:
    from agentrt.adapters.openai import arun_tool

    items: list[Any] = [{"role": "user", "content": request}]
    made: list[Any] = []
    while True:
        final: Any = None
        async for event in await client.responses.create(model="m", input=items, tools=schemas, stream=True):
            final = event.response if event.type == "response.completed" else final
        calls = [item for item in final.output if item.type == "function_call"]
        if not calls:
            return str(final.output_text), made
        made.extend((item.name, json.loads(item.arguments)) for item in calls)
        said = await asyncio.gather(*(arun_tool(client, item) for item in calls))
        items += [item.model_dump(exclude_none=True) for item in calls]
        items += [
            {"type": "function_call_output", "call_id": item.call_id, "output": text}
            for item, text in zip(calls, said, strict=True)
        ]
