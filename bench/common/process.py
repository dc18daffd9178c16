"""One side of a comparison, in its own process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self


class SideProcess:
    """Proxy of an object in its own process, which is idle between two calls. A context manager."""

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        """Start the process and wait until ``make(*arguments)``, a module's function, has made the object."""
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._answer()

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method of the object and return its result; raise what it raises."""
        self._connection.send((method, arguments))
        return self._answer()

    def __enter__(self) -> Self:
        """Return the side itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(10)
        self._process.kill()

    def _answer(self) -> Any:
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(connection: Connection, make: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Main function of the process: answer calls until the pipe is closed."""
    try:
        side = make(*arguments)
        connection.send(None)
        while True:
            try:
                method, passed = connection.recv()
            except EOFError:
                return
            connection.send(getattr(side, method)(*passed))
    except Exception as error:  # noqa: BLE001 - it is raised again where the call was made
        connection.send(error)
