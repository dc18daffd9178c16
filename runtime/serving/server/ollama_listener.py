"""The listener of Ollama's interface, and running a server at this one and its first."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from fastapi import FastAPI

from agentrt.errors import ConfigurationError

from ..http.config import ListenConfig
from ..http.listener import bind
from ..http.run import DrainingServer, _signals_stop


@contextmanager
def bind_ollama(config: ListenConfig, first: socket.socket) -> Iterator[socket.socket]:
    """Listen on the address in ``config`` until the block ends; ``first`` is the server's other listener.

    Raises:
        ConfigurationError: the address is in use or cannot be used, or ``first`` has the same port.
    """
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(bind(config))
        except ConfigurationError as error:
            problem = str(error)
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
                problem = (
                    f"another program, such as Ollama, listens on {config.host}, port {config.port}. Stop "
                    "it, or choose another address: --ollama HOST:PORT."
                )
            raise ConfigurationError(f"--ollama: {problem}") from error
        port = listener.getsockname()[1]
        if first.getsockname()[1] == port:  # by which requests are told apart; of a Unix socket a character
            raise ConfigurationError(f"--ollama: --port is {port}, too. Choose another one.")
        yield listener


def serve_at(
    app: FastAPI,
    config: ListenConfig,
    listeners: Sequence[socket.socket],
    ready: Callable[[], None],
    waiting: Callable[[int], None],
) -> None:
    """Serve at several listeners, as :func:`~agentrt.runtime.serving.server.serve` does at one."""
    server = DrainingServer(app, config, ready, waiting)
    with _signals_stop(server):
        server.run(sockets=list(listeners))
