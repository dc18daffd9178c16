"""The service of the tool cache bench, in its own process, with a model that reasons before it calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from agentrt.calls import TextDelta

from ..common.served_runtime import RuntimeService, ServedRuntime, exact
from .instrumented import ToolCacheSwitches, reason_before_calls
from .sides import Optimizations

APPS = 8192
"""Apps share no prefixes: a request of an app that has sent none finds no prefix cache."""


def token_of(app: int) -> str:
    """Return the token of an app."""
    return f"bench-app-token-{app:06}"


class BenchServer(ServedRuntime):
    """Serves a model on a free port inside a ``with`` block."""

    def __init__(self, model: str, reasoning_tokens: int) -> None:
        """``reasoning_tokens`` tokens precede a call in requests that offer tools and hold no result yet."""
        super().__init__(_Service, model, reasoning_tokens)
        self.model_id = str(self.call("model_id"))

    def use(self, optimizations: Optimizations) -> None:
        """Set what the tool cache does for the requests that start from now on."""
        self.call("use", optimizations)

    def generate_s(self, options: dict[str, Any]) -> float:
        """Return the seconds of a whole answer inside the process, on the engine that serves."""
        return float(self.call("generate_s", options))

    def first_text_s(self, options: dict[str, Any]) -> float:
        """Return the seconds until the first text of a streamed answer inside the process."""
        return float(self.call("first_text_s", options))


class _Service(RuntimeService):
    """The object in the server's process."""

    def __init__(self, model: str, reasoning_tokens: int) -> None:
        from agentrt.runtime.serving.http.identity import Tokens
        from agentrt.runtime.serving.server import ServerConfig

        tokens = Tokens((f"app {app}", token_of(app)) for app in range(APPS))
        super().__init__(model, exact(), ServerConfig(port=0, tokens=tokens))
        self._listener.listen(1024)
        self._switches = ToolCacheSwitches(self._runtime)
        reason_before_calls(self._runtime, reasoning_tokens)
        self._loop = asyncio.new_event_loop()

    def model_id(self) -> str:
        return self._runtime.model_id

    def use(self, optimizations: Optimizations) -> None:
        self._switches.optimizations = optimizations

    def generate_s(self, options: dict[str, Any]) -> float:
        return self._loop.run_until_complete(self._generate(options))

    async def _generate(self, options: dict[str, Any]) -> float:
        began = time.perf_counter()
        await self._runtime.agenerate(**options)
        return time.perf_counter() - began

    def first_text_s(self, options: dict[str, Any]) -> float:
        return self._loop.run_until_complete(self._first_text(options))

    async def _first_text(self, options: dict[str, Any]) -> float:
        began, seconds = time.perf_counter(), 0.0
        async for event in self._runtime.stream(**options):
            if not seconds and isinstance(event, TextDelta):
                seconds = time.perf_counter() - began
        return seconds
