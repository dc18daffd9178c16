"""The agents of the tool cache bench: a tool loop over HTTP on the official client, plain or speculating."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from agentrt.drafts import Speculator

from .server import APPS, BenchServer, token_of
from .sides import Side
from .tasks import Task, TaskTools

_TIMEOUT_S = 600.0
"""Of a request: a large model on a busy machine takes long."""


@dataclass(slots=True)
class Done:
    """Result of one task; times are in seconds from its first request, tokens as counted by the server."""

    first_s: float = 0.0
    """When the first word came."""
    reasoned_s: float = 0.0
    """When the last word before the call came."""
    called_s: float = 0.0
    """When the call was complete."""
    ready_s: float = 0.0
    """When the agent had the tool's output; 0 if the engine answered the call."""
    resumed_s: float = 0.0
    """When the first word behind the tool's output came."""
    elapsed_s: float = 0.0
    prompt_tokens: int = 0
    first_tokens: int = 0
    """Tokens of the answer that calls."""
    output_tokens: int = 0
    """Tokens of the tool's output, with what the chat template adds."""
    read_tokens: int = 0
    """Tokens that the request with the tool's output read, as no prefix cache had them."""
    written_tokens: int = 0
    """Tokens that the model wrote in all answers."""
    name: str = ""
    arguments: str = ""
    text: str = ""
    in_engine: bool = False

    @property
    def call_s(self) -> float:
        """Seconds from the last word before the call to the end of the call."""
        return self.called_s - self.reasoned_s

    @property
    def handover_s(self) -> float:
        """Seconds from the end of the call until the agent had the output; 0 if the engine answered it."""
        return max(0.0, self.ready_s - self.called_s)

    @property
    def reentry_s(self) -> float:
        """Seconds from when call and output were there to the model's next word, or end if it said none."""
        return (self.resumed_s or self.elapsed_s) - max(self.called_s, self.ready_s)

    @property
    def after_reasoning_s(self) -> float:
        """Seconds from the last word before the call to the end of the task."""
        return self.elapsed_s - self.reasoned_s

    @property
    def transcript(self) -> tuple[str, str, str]:
        """What the model said: the call's name and arguments, and the last answer."""
        return self.name, self.arguments, self.text


class Clients:
    """Makes clients on one connection pool: each app's requests share prefixes, and no other's."""

    def __init__(self, server: BenchServer, stack: AsyncExitStack, max_tokens: int) -> None:
        """``stack`` closes the connections; a task has at most ``max_tokens`` tokens."""
        import httpx
        import openai

        self.model = server.model_id
        self.max_tokens = max_tokens
        self._apps = itertools.cycle(range(1, APPS))
        url = f"http://127.0.0.1:{server.port}"
        self.plain: Any = openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key=token_of(0), max_retries=0, timeout=_TIMEOUT_S
        )
        self.http = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {token_of(0)}"}, timeout=_TIMEOUT_S
        )
        stack.push_async_callback(self.plain.close)
        stack.push_async_callback(self.http.aclose)

    def of_side(self, side: Side, tools: TaskTools, predictor: Speculator) -> Any:
        """Return the client of a side: a plain one, or the SDK's."""
        from agentrt.adapters.openai import speculate

        if not side.speculates:
            return self.plain
        return speculate(self.plain, predictor, tools=tools.speculable, tool_cache=side.submits)

    def of_requests(self, client: Any, side: Side) -> Iterator[Any]:
        """Yield ``client`` for each request of one task, as a new app, or as a new one each time."""
        for app in self._apps:
            copy = client.with_options(api_key=token_of(app))
            yield copy
            while side.prefix_cached:
                yield copy

    async def warm(self, task: Task) -> None:
        """Let the server compile the grammar of a task, which it keeps."""
        messages = [{"role": "user", "content": "Hello!"}]
        await self.plain.chat.completions.create(
            model=self.model, messages=messages, tools=task.tools, max_tokens=1
        )


class Agent:
    """Runs tasks on one side."""

    def __init__(self, clients: Clients, side: Side, tools: TaskTools, predictor: Speculator) -> None:
        """``predictor`` drafts for sides that speculate; ``tools`` has the tools of all tasks."""
        self.side = side
        self._clients = clients
        self._tools = tools
        self._client = clients.of_side(side, tools, predictor)

    async def do(self, task: Task) -> Done:
        """Run ``task`` until the model answers without a call."""
        requests = self._clients.of_requests(self._client, self.side)
        client, next_client = next(requests), next(requests)
        messages: list[Any] = [{"role": "user", "content": task.prompt}]
        done, began = Done(), time.perf_counter()
        first = _Answer(done, began)
        await first.read(await self._send(client, task, messages, self._clients.max_tokens))
        done.prompt_tokens, done.first_tokens = first.prompt_tokens, first.written_tokens
        done.written_tokens = first.written_tokens
        if first.call is not None:
            result = await self._result(client, first.call)
            done.ready_s = time.perf_counter() - began
            messages += first.messages(result)
            last = _Answer(done, began)
            # The engine counts both turns as one answer.
            left = max(1, self._clients.max_tokens - first.written_tokens)
            await last.read(await self._send(next_client, task, messages, left))
            done.output_tokens = last.prompt_tokens - first.prompt_tokens - first.written_tokens
            done.read_tokens = last.prompt_tokens - last.cached_tokens
            done.written_tokens += last.written_tokens
        done.elapsed_s = time.perf_counter() - began
        return done

    async def _result(self, client: Any, call: Any) -> str:
        if self.side.speculates:
            from agentrt.adapters.openai import arun_tool

            return str(await arun_tool(client, call))
        return await self._tools.run(call.function.name, json.loads(call.function.arguments))

    async def _send(self, client: Any, task: Task, messages: list[Any], max_tokens: int) -> Any:
        return await client.chat.completions.create(
            model=self._clients.model,
            messages=messages,
            tools=task.tools,
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=max_tokens,
            stream=True,
            stream_options={"include_usage": True},
        )


class _Answer:
    """Reads one streamed answer, and notes in ``done`` what it says and when."""

    def __init__(self, done: Done, began: float) -> None:
        """``began`` is when the task began, on :func:`time.perf_counter`."""
        self._done = done
        self._began = began
        self._content = ""
        self.call: Any = None
        """The call that the agent has to make; None if there is none, or the engine has answered it."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.written_tokens = 0

    async def read(self, stream: Any) -> None:
        async for chunk in stream:
            now = time.perf_counter() - self._began
            if chunk.usage is not None:
                self.prompt_tokens = chunk.usage.prompt_tokens
                self.cached_tokens = chunk.usage.prompt_tokens_details.cached_tokens
                self.written_tokens = chunk.usage.completion_tokens
            for choice in chunk.choices:
                self._read_delta(choice.delta, now)

    def messages(self, result: str) -> list[Any]:
        """Return the messages of the answer with its call, and of the call's result."""
        function = {"name": self._done.name, "arguments": self._done.arguments}
        call = {"id": self.call.id, "type": "function", "function": function}
        return [
            {"role": "assistant", "content": self._content, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": self.call.id, "content": result},
        ]

    def _read_delta(self, delta: Any, now: float) -> None:
        done = self._done
        # A task is one call: those that a model makes when it has the output are not run.
        if self.call is not None or not done.called_s:
            for piece in delta.tool_calls or ():
                self._read_call(piece, now)
        if (delta.model_extra or {}).get("tool_results"):
            done.in_engine, self.call = True, None
        if not delta.content:
            return
        done.first_s = done.first_s or now
        if not done.called_s:
            self._content += delta.content
            done.reasoned_s = now
            return
        done.resumed_s = done.resumed_s or now
        done.text += delta.content

    def _read_call(self, piece: Any, now: float) -> None:
        done = self._done
        if self.call is None:
            self.call, done.name = piece, piece.function.name
        done.arguments += piece.function.arguments or ""
        self.call.function.arguments = done.arguments
        done.called_s = now
