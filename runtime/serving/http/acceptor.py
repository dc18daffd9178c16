"""Accepting the connections of a listening socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_RETRY_S: Final = 1.0
"""Seconds between two tries to accept, where no connection can be closed for a new one."""
_WARNING_S: Final = 60.0

_log = logging.getLogger(__name__)


class Acceptor:
    """Accepts connections, one in each turn of the event loop, so that those before it are read meanwhile.

    asyncio's servers accept as many in a turn as the system has queued. In Python 3.11 they try and log as
    often when no descriptor is left.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        free_one: Callable[[], bool],
    ) -> None:
        """Accept from ``listener`` from now on, on the running event loop.

        ``protocol`` returns the protocol of a new connection. ``free_one`` is called when the system refuses
        one; it returns whether it has freed a descriptor by the loop's next turn.
        """
        listener.setblocking(False)
        self._listener = listener
        self._protocol = protocol
        self._free_one = free_one
        self._warned = float("-inf")
        self._task = asyncio.create_task(self._accept_all())

    def close(self) -> None:
        """Accept no more connections."""
        self._task.cancel()

    async def wait_closed(self) -> None:
        """Wait until no more connections are accepted."""
        with suppress(asyncio.CancelledError):
            await self._task

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:  # also network errors, which belong to one connection (accept(2))
                self._warn(error)
                await asyncio.sleep(0 if self._free_one() else _RETRY_S)
                continue
            with suppress(OSError):
                await loop.connect_accepted_socket(self._protocol, connection)

    def _warn(self, error: OSError) -> None:
        """Log the first error and then one a minute: clients could fill the disk with more."""
        now = asyncio.get_running_loop().time()
        if now - self._warned >= _WARNING_S:
            self._warned = now
            _log.warning(
                "cannot accept a connection (%s). If too many files are open, raise the limit (ulimit -n).",
                error.strerror,
            )
