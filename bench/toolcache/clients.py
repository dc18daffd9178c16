"""OpenAI clients of the bench's server, one app each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

from agentrt.drafts import Speculator

from .server import APPS, BenchServer, token_of
from .sides import Side
from .tools import TaskTools

_TIMEOUT_S = 600.0
"""Of a request: a large model on a busy machine takes long."""


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
