"""The listener of Ollama's interface."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agentrt.errors import ConfigurationError

from ..http.config import ListenConfig
from ..http.listener import bind


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
