"""Applications served over real sockets, on threads of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

import uvicorn.server
from fastapi import FastAPI

from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.serving.http.listener import bind
from agentrt.runtime.serving.http.run import DrainingServer
from tests.patience import PATIENCE_S
from tests.patience import until as until  # for those who serve


def _nap(seconds: float) -> Coroutine[Any, Any, None]:
    return asyncio.sleep(min(seconds, 0.01))


# uvicorn looks ten times a second whether to stop, and waits as long when it stops: most of a short test.
uvicorn.server.asyncio = SimpleNamespace(**(vars(asyncio) | {"sleep": _nap}))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Running:
    """A server that accepts connections, on a thread of its own."""

    port: int
    admission: Any
    _server: DrainingServer
    ollama_port: int = 0
    """That of the listener of Ollama's clients, if there is one."""

    @property
    def connections(self) -> int:
        """How many connections the server has."""
        return len(self._server.server_state.connections)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ollama_url(self) -> str:
        return f"http://127.0.0.1:{self.ollama_port}"

    def url_of(self, path: str) -> str:
        """The address at which the server has this route."""
        return f"{self.ollama_url if path.startswith('/api/') else self.url}{path}"

    def connect(self, path: str = "/") -> socket.socket:
        port = self.ollama_port if path.startswith("/api/") else self.port
        return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


Start: TypeAlias = Callable[..., Running]
"""Starts a server with settings of its own."""


TOKENS = Tokens([("mail", "m" * 20), ("notes", "n" * 20)])
MAIL, NOTES = ({"authorization": f"Bearer {letter * 20}"} for letter in "mn")


def read_all(connection: socket.socket) -> bytes:
    """What arrives until the server closes."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


@contextmanager
def listening(app: FastAPI, config: ListenConfig, *others: socket.socket) -> Iterator[Running]:
    """Serve ``app`` at the address in ``config`` and at other listeners: that of Ollama's clients."""
    with bind(config) as listener:
        server = DrainingServer(app, config)
        port = 0 if config.uds else listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener, *others],))
        thread.start()
        try:
            ollama_port = others[0].getsockname()[1] if others else 0
            yield Running(port, getattr(app.state, "admission", None), server, ollama_port)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
