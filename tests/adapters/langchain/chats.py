"""What a chat model is asked, and the ways to ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool

SYSTEM = SystemMessage("You are a helpful assistant.")
HELLO = [SYSTEM, HumanMessage("Hello!")]
QUESTION = HumanMessage("What is the weather in Oslo?")
RESULT = '{"city": "Oslo", "temperature": 12, "sky": "light rain"}'


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return RESULT.replace("Oslo", city)


def whole(chunks: Any) -> AIMessageChunk:
    """Return the streamed message."""
    first, *others = chunks
    message: AIMessageChunk = sum(others, start=first)
    return message


async def collect(chunks: Any) -> list[Any]:
    return [chunk async for chunk in chunks]


async def astreamed(chat: Any, *given: Any, **options: Any) -> AIMessageChunk:
    return whole(await collect(chat.astream(*given, **options)))


Ask = Callable[..., Any]
WAYS: dict[str, Ask] = {
    "invoke": lambda chat, /, *given, **options: chat.invoke(*given, **options),
    "ainvoke": lambda chat, /, *given, **options: asyncio.run(chat.ainvoke(*given, **options)),
    "stream": lambda chat, /, *given, **options: whole(chat.stream(*given, **options)),
    "astream": lambda chat, /, *given, **options: asyncio.run(astreamed(chat, *given, **options)),
}
ways = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
