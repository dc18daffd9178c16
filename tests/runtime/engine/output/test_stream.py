"""The stream of a generation, between the engine thread and one event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.runtime.engine.output.stream import GenerationStream


def test_output_after_the_loop_has_closed_ends_the_request() -> None:
    listeners: list[Any] = []

    def submit(listener: Any) -> Any:
        listeners.append(listener)
        return SimpleNamespace(output=Future())

    async def main() -> None:
        streams.append(GenerationStream(submit, SimpleNamespace(), None))  # type: ignore[arg-type]
        listeners[0]("Hello")

    streams: list[GenerationStream] = []
    asyncio.run(main())
    with pytest.raises(RuntimeError, match="the event loop of this stream is closed"):
        listeners[0](" there")
