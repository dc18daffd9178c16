"""The agents of the tool cache bench: one task in each of four ways, over HTTP with the official client."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .tasks import Task

Side: TypeAlias = Literal["vanilla", "prefix-cached", "client-side", "engine-side"]
SIDES: tuple[Side, ...] = ("vanilla", "prefix-cached", "client-side", "engine-side")

_MAX_TOKENS = 1000


@dataclass(slots=True)
class Done:
    """Result of one task: seconds from its first request, tokens as counted by the server."""

    elapsed_s: float = 0.0
    called_s: float = 0.0
    """When the call was complete."""
    resumed_s: float = 0.0
    """When the first word behind the tool's output came."""
    ready_s: float = 0.0
    """When the tool's output was there."""
    first_s: float = 0.0
    prompt_tokens: int = 0
    first_tokens: int = 0
    """Tokens of the answer that calls."""
    output_tokens: int = 0
    name: str = ""
    arguments: str = ""
    text: str = ""
    in_engine: bool = False
    _ids: list[str] = field(default_factory=list)


class Agent:
    """Runs tasks in one of the four ways on one connection pool."""

    def __init__(self, client: Any, side: Side, fresh: Any) -> None:
        """``fresh`` returns a client with a new app, so that no prefix is cached."""
        self._client = client
        self._side = side
        self._fresh = fresh

    async def do(self, task: Task, draft: Mapping[str, Any] | None) -> Done:
        """Run ``task``; ``draft`` is the call that the model will make, as a right predictor drafts it."""
        done, began = Done(), time.perf_counter()
        tool: asyncio.Task[str] | None = None
        if draft is not None and self._side in ("client-side", "engine-side"):
            tool = asyncio.create_task(self._run_tool(task))
        messages: list[Any] = [{"role": "user", "content": task.prompt}]
        submitted = tool if self._side == "engine-side" else None
        content, usage = await self._answer(task, messages, done, began, submitted, draft)
        done.prompt_tokens, done.first_tokens = usage
        if not done.in_engine:
            result = await (tool if tool is not None else self._run_tool(task))
            done.ready_s = time.perf_counter() - began
            call = {"id": "call_0", "type": "function"}
            call["function"] = {"name": done.name, "arguments": done.arguments}  # type: ignore[assignment]
            messages += [
                {"role": "assistant", "content": content, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_0", "content": result},
            ]
            done.resumed_s = 0.0
            before = done.prompt_tokens + done.first_tokens
            done.text, (prompt, _) = await self._answer(task, messages, done, began, None, None)
            done.output_tokens = prompt - before
        done.elapsed_s = time.perf_counter() - began
        return done

    async def _run_tool(self, task: Task) -> str:
        await asyncio.sleep(task.latency_s)
        return task.output

    async def _answer(
        self,
        task: Task,
        messages: list[Any],
        done: Done,
        began: float,
        tool: asyncio.Task[str] | None,
        draft: Mapping[str, Any] | None,
    ) -> tuple[str, tuple[int, int]]:
        client = self._fresh() if self._side == "vanilla" else self._client
        stream = await client.chat.completions.create(
            model="nano",
            messages=messages,
            tools=task.tools,
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=_MAX_TOKENS - done.first_tokens,
            stream=True,
            stream_options={"include_usage": True},
        )
        submitting: asyncio.Task[None] | None = None
        content, usage, behind = "", (0, 0), ""
        async for chunk in stream:
            if submitting is None and tool is not None and draft is not None:
                submitting = asyncio.create_task(_submit(client, chunk.id, tool, draft))
            now = time.perf_counter() - began
            if chunk.usage is not None:
                usage = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            for choice in chunk.choices:
                delta = choice.delta
                for piece in delta.tool_calls or ():
                    done.name += piece.function.name or ""
                    done.arguments += piece.function.arguments or ""
                    done.called_s = now
                if (delta.model_extra or {}).get("tool_results"):
                    done.in_engine = True
                if delta.content:
                    done.first_s = done.first_s or now
                    if done.called_s and not done.resumed_s:
                        done.resumed_s = now
                    if done.in_engine:
                        behind += delta.content
                    else:
                        content += delta.content
        if submitting is not None:
            submitting.cancel()
        if done.in_engine:
            done.text = behind
        return content, usage


async def _submit(client: Any, response_id: str, tool: asyncio.Task[str], draft: Mapping[str, Any]) -> None:
    output = await asyncio.shield(tool)
    entry = {"name": draft["name"], "params": json.loads(draft["arguments"]), "output": output}
    await client.post(f"/cache-tool-output/{response_id}", cast_to=object, body=[entry])
