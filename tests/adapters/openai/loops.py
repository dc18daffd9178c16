"""Tool loops on the OpenAI client, by every way there is to ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
from openai import AsyncOpenAI, OpenAI

from agentrt.adapters.openai import run_tool
from tests.adapters.openai.doubles import RESPONSES_TOOLS, TOOLS
from tests.adapters.stainless.doubles import HI

# The ways to ask a client for an answer; each returns the answer's calls and its text.


async def chat_create(client: AsyncOpenAI, history: list[Any]) -> Any:
    answer = await client.chat.completions.create(model="m", messages=history, tools=TOOLS)  # type: ignore[arg-type]
    return answer.choices[0].message


async def chat_raw(client: AsyncOpenAI, history: list[Any]) -> Any:
    raw = await client.with_options(timeout=60).chat.completions.with_raw_response.create(
        model="m",
        messages=history,
        tools=TOOLS,  # type: ignore[arg-type]
    )
    return raw.parse().choices[0].message


async def chat_parse(client: AsyncOpenAI, history: list[Any]) -> Any:
    strict: Any = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]  # type: ignore[dict-item]
    answer = await client.chat.completions.parse(model="m", messages=history, tools=strict)
    return answer.choices[0].message


async def chat_streamed(client: AsyncOpenAI, history: list[Any]) -> Any:
    parts: dict[int, list[str]] = {}
    stream: Any = await client.chat.completions.create(
        model="m",
        messages=history,
        tools=TOOLS,  # type: ignore[arg-type]
        stream=True,
    )
    async for chunk in stream:
        for piece in chunk.choices[0].delta.tool_calls or ():
            part = parts.setdefault(piece.index, ["", "", ""])
            part[0] = piece.id or part[0]
            part[1] = piece.function.name or part[1]
            part[2] += piece.function.arguments
        if chunk.choices[0].finish_reason:  # many loops do not wait for the end of the stream
            break
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in parts.values()
    ]
    return openai.types.chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None if calls else "done", "tool_calls": calls or None}
    )


async def chat_stream_helper(client: AsyncOpenAI, history: list[Any]) -> Any:
    async with client.chat.completions.stream(model="m", messages=history, tools=TOOLS) as stream:  # type: ignore[arg-type]
        return (await stream.get_final_completion()).choices[0].message


CHAT = [chat_create, chat_raw, chat_parse, chat_streamed, chat_stream_helper]


async def chat_loop(client: AsyncOpenAI, ask: Callable[..., Any], run: Callable[..., Any]) -> list[Any]:
    history: list[Any] = [HI]
    while True:
        message = await ask(client, history)
        history.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        if not message.tool_calls:
            return history
        for call in message.tool_calls:
            history.append({"role": "tool", "tool_call_id": call.id, "content": await run(client, call)})


async def responses_create(client: AsyncOpenAI, **options: Any) -> Any:
    return await client.responses.create(model="m", tools=RESPONSES_TOOLS, **options)  # type: ignore[call-overload]


async def responses_streamed(client: AsyncOpenAI, **options: Any) -> Any:
    stream = await client.responses.create(model="m", tools=RESPONSES_TOOLS, stream=True, **options)  # type: ignore[call-overload]
    async for event in stream:
        if event.type == "response.completed":
            return event.response


async def responses_stream_helper(client: AsyncOpenAI, **options: Any) -> Any:
    async with client.responses.stream(model="m", tools=RESPONSES_TOOLS, **options) as stream:  # type: ignore[arg-type]
        return await stream.get_final_response()


RESPONSES = [responses_create, responses_streamed, responses_stream_helper]


async def responses_loop(
    client: AsyncOpenAI, ask: Callable[..., Any], run: Callable[..., Any], stateful: bool
) -> list[Any]:
    items: list[Any] = [HI]
    new: list[Any] = items
    previous: dict[str, Any] = {}
    while True:
        answer = await ask(client, input=new if previous else items, **previous)
        made = [item for item in answer.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True) for item in made]
        if not made:
            return [*items, answer.output_text]
        new = [
            {"type": "function_call_output", "call_id": item.call_id, "output": await run(client, item)}
            for item in made
        ]
        items += new
        previous = {"previous_response_id": answer.id} if stateful else {}


def sync_results(client: OpenAI, streamed: bool, turns: int, *, api: str) -> list[Any]:
    """Run a loop of one call a turn on the sync client; return what its tools gave."""
    history: list[Any] = [HI]
    results: list[Any] = []
    for _ in range(turns):
        if api == "chat":
            options: Any = {"model": "m", "messages": history, "tools": TOOLS}
            if streamed:
                with client.chat.completions.stream(**options) as stream:
                    calls = stream.get_final_completion().choices[0].message.tool_calls
            else:
                calls = client.chat.completions.create(**options).choices[0].message.tool_calls
            for call in calls or ():
                results.append(run_tool(client, call))
                history += [
                    {"role": "assistant", "tool_calls": [call.model_dump()]},
                    {"role": "tool", "tool_call_id": call.id, "content": results[-1]},
                ]
        else:
            answer: Any = client.responses.create(
                model="m",
                input=history,
                tools=RESPONSES_TOOLS,  # type: ignore[call-overload]
                stream=streamed,
            )
            if streamed:
                answer = next(event.response for event in answer if event.type == "response.completed")
            for item in answer.output:
                if item.type == "function_call":
                    results.append(run_tool(client, item))
                    output = {"type": "function_call_output", "call_id": item.call_id, "output": results[-1]}
                    history += [item.model_dump(), output]
    return results
