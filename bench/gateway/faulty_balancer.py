"""A balancer between the gateways and their engine that refuses requests and breaks streams off."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from contextlib import suppress
from typing import Final, Self

_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_ATTEMPT: Final = re.compile(rb"(?i)\r\nx-bench-attempt: *(\S+)")
_REFUSAL: Final = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_PIECE: Final = 1 << 16


class FaultyBalancer:
    """Relays one request a connection to the engine. An async context manager."""

    def __init__(self, engine_port: int, drawn: random.Random) -> None:
        """Relay to ``engine_port`` without faults. ``drawn`` draws them."""
        self._engine_port = engine_port
        self._random = drawn
        self.refused = 0.0
        """The share of requests that are answered with a 503."""
        self.broken_off = 0.0
        """The share of answers that are broken off after their first event."""
        self.thinking_s = 0.0
        """Seconds between the head and the first event of an answer, as of a larger model."""
        self.faults: Counter[str] = Counter()
        """How many of each kind there were."""
        self._begun: Counter[tuple[bytes, bytes]] = Counter()
        self.port = 0

    @property
    def repeated(self) -> int:
        """How many answers to a request of one attempt were begun again."""
        return sum(count - 1 for count in self._begun.values())

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Accept no more connections."""
        self._server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await self._relay_request(reader, writer)
        writer.close()

    async def _relay_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        if self._random.random() < self.refused:
            self.faults["refused"] += 1
            writer.write(_REFUSAL)
            await writer.drain()
            return
        attempt = _ATTEMPT.search(head)
        theirs, engine = await asyncio.open_connection("127.0.0.1", self._engine_port)
        try:
            engine.write(head[:-2] + b"connection: close\r\n\r\n" + body)
            writer.write(answer := await theirs.readuntil(b"\r\n\r\n"))
            await writer.drain()
            if attempt is not None:
                self._begun[attempt[1], body] += 1
            await asyncio.sleep(self.thinking_s)
            breaks_off = self._random.random() < self.broken_off
            if breaks_off and b"text/event-stream" in answer:
                self.faults["broken off"] += 1
                writer.write(await theirs.readuntil(b"\n\n"))
                await writer.drain()
                return
            while piece := await theirs.read(_PIECE):
                writer.write(piece)
                await writer.drain()
        finally:
            engine.close()
