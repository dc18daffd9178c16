"""What an agent asks of a server and gets from it, recorded between the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


@dataclass
class Exchange:
    """One request and its answer."""

    path: str
    body: dict[str, Any]
    status: int = 0
    answer: str = ""

    @property
    def is_for_a_model(self) -> bool:
        """Whether a model answers it."""
        return self.path in (CHAT, MESSAGES)

    @property
    def is_answered(self) -> bool:
        """Whether the answer is whole and no error, by its own form."""
        if self.status != 200:
            return False
        if not self.body.get("stream"):
            return "error" not in json.loads(self.answer)
        end = {CHAT: "data: [DONE]", MESSAGES: "event: message_stop"}[self.path]
        return end in self.answer and '"error":' not in self.answer

    @property
    def tools(self) -> dict[str, Any]:
        """The tools that the request offers, by name."""
        given = [tool.get("function", tool) for tool in self.body.get("tools") or ()]
        return {tool["name"]: tool for tool in given if "name" in tool}

    @property
    def results(self) -> list[str]:
        """The results of calls that the request brings."""
        found = []
        for message in self.body.get("messages", ()):
            content = message.get("content")
            if message["role"] == "tool":
                found.append(_text(content))
            elif isinstance(content, list):
                found += [_text(block.get("content")) for block in content if block["type"] == "tool_result"]
        return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


class Recorder:
    """ASGI middleware that records exchanges; ``change`` may change the body of a request first."""

    def __init__(
        self, app: ASGIApp, exchanges: list[Exchange], change: Callable[[Exchange], Mapping[str, Any]]
    ) -> None:
        self._app = app
        self._exchanges = exchanges
        self._change = change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        content = b""
        while (message := await receive())["type"] == "http.request":
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        exchange = Exchange(scope["path"], json.loads(content) if content else {})
        self._exchanges.append(exchange)
        given = json.dumps(self._change(exchange)).encode() if content else b""
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        headers += [(b"content-length", str(len(given)).encode())] if content else []
        asked = [{"type": "http.request", "body": given, "more_body": False}]

        async def receive_given() -> Message:
            return asked.pop() if asked else await receive()

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
            else:
                exchange.answer += message.get("body", b"").decode("utf-8", "replace")
            await send(message)

        await self._app({**scope, "headers": headers}, receive_given, send_noted)
