"""A client of a server that the script has started."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from . import TOKENS_PER_SECOND


def openai_client(url: str, model: str) -> AsyncOpenAI:
    """Return OpenAI's client for the server at ``url``, with nano held to the pace of a larger model."""
    hooks: dict[str, list[Any]] = {"response": [_wait]} if model == "nano" else {}
    http = DefaultAsyncHttpxClient(event_hooks=hooks)
    return AsyncOpenAI(base_url=url, api_key="unused", http_client=http)


async def _wait(response: httpx2.Response) -> None:
    """Wait as long as a larger model needs for the tokens of an answer that is not streamed."""
    usage = json.loads(await response.aread()).get("usage") or {}
    await asyncio.sleep(usage.get("completion_tokens", 0) / TOKENS_PER_SECOND)
