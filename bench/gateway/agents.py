"""Agents that submit the output of a tool ahead of its call, to any replica."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Final = {
    "name": "get_weather",
    "description": "Get the weather in a city.",
    "parameters": PARAMETERS,
}


class BrokenStreamError(Exception):
    """A stream ended before its answer was complete."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a model, and what the tool says about its city."""

    model: str
    city: str
    output: str

    def request(self, *more: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a request, with the messages ``more`` behind the question."""
        asked = {"role": "user", "content": f"What is the weather in {self.city}?"}
        return {
            "model": self.model,
            "messages": [asked, *more],
            "tools": [{"type": "function", "function": FUNCTION}],
            "temperature": 0,
            "max_tokens": 96,
            "stream": True,
        }

    def turn(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the messages of the call and of its output."""
        made = {"id": call["id"], "type": "function", "function": call["function"]}
        return [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call["id"], "content": self.output},
        ]


@dataclass(slots=True)
class Answer:
    """What a stream says."""

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """Outputs that the gateway has put behind their calls."""

    def add(self, delta: dict[str, Any]) -> None:
        """Add the delta of a chunk."""
        self.text += delta.get("content") or ""
        self.results += [result["content"] for result in delta.get("tool_results") or ()]
        for part in delta.get("tool_calls") or ():
            if part["index"] == len(self.calls):
                self.calls.append({"id": part["id"], "function": {"name": "", "arguments": ""}})
            function = self.calls[part["index"]]["function"]
            for name in ("name", "arguments"):
                function[name] += part.get("function", {}).get(name) or ""


@dataclass(slots=True)
class Totals:
    """What the agents of one part have counted."""

    tasks: int = 0
    submissions: int = 0
    claimed: int = 0
    broken: int = 0
    """Streams that ended before their answer was complete."""
    wrong: int = 0
    """Answers that are not those of a client which runs the tool itself."""


class Agents:
    """Ask questions by random replicas, as behind a balancer that knows nothing of them."""

    def __init__(self, http: httpx.AsyncClient, ports: Sequence[int], drawn: random.Random) -> None:
        """``ports`` are those of the replicas, one of which may refuse connections."""
        self._http = http
        self._ports = ports
        self._random = drawn

    async def ask(self, question: Question, expected: str, totals: Totals) -> None:
        """Ask until a stream is complete, submitting the output each time, and count what happens."""
        totals.tasks += 1
        while True:
            try:
                text = await self._attempt(question, totals)
            except (httpx.TransportError, BrokenStreamError):
                totals.broken += 1
                continue
            totals.wrong += text != expected
            return

    async def _attempt(self, question: Question, totals: Totals) -> str:
        answer = await self._stream(question.request(), question, totals)
        if answer.results:
            totals.claimed += 1
            return answer.text if answer.results == [question.output] else ""
        (call,) = answer.calls
        return (await self._stream(question.request(*question.turn(call)))).text

    async def _stream(
        self, body: dict[str, Any], question: Question | None = None, totals: Totals | None = None
    ) -> Answer:
        response = await self._send("/v1/chat/completions", body)
        answer, submission = Answer(), None
        try:
            async for chunk in chunks_of(response):
                if question is not None and totals is not None and submission is None:
                    totals.submissions += 1
                    submission = asyncio.create_task(self._submit(chunk["id"], question))
                for choice in chunk["choices"]:
                    answer.add(choice["delta"])
        finally:
            await response.aclose()
            if submission is not None:
                await submission
        return answer

    async def _submit(self, id: str, question: Question) -> None:
        output = {"name": "get_weather", "params": {"city": question.city}, "output": question.output}
        path = f"/v1/cache-tool-output/{id}"
        while True:
            try:
                response = await self._send(path, [output | {"reusable": False}])
                await response.aclose()
            except httpx.TransportError:
                continue  # it may be sent again: it is stored under its call
            return

    async def _send(self, path: str, body: Any) -> httpx.Response:
        """Send a request to replicas in random order until one accepts the connection."""
        ports = self._random.sample(self._ports, len(self._ports))
        headers = {"x-bench-attempt": uuid.uuid4().hex}
        for port in ports:
            url = f"http://127.0.0.1:{port}{path}"
            request = self._http.build_request("POST", url, json=body, headers=headers)
            try:
                return await self._http.send(request, stream=True)
            except httpx.ConnectError:
                if port == ports[-1]:
                    raise
        raise AssertionError("there is a replica")


async def chunks_of(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a stream.

    Raises:
        BrokenStreamError: it ends in an error, or without ``[DONE]``.
    """
    async for line in response.aiter_lines():
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            chunk = json.loads(line[6:])
            if "choices" not in chunk:
                raise BrokenStreamError(line)
            yield chunk
    raise BrokenStreamError(f"status {response.status_code}")
