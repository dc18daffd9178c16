"""One side of a comparison, in its own process."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from agentrt.errors import BenchProcessError

_LAST_LINES = 20
_JOIN_S = 10


def without_settings(folder: str) -> dict[str, str]:
    """Return an environment in which ``agentrt`` reads no config file of the user, and no contexts."""
    return {**os.environ, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder}


class SideProcess:
    """Proxy of an object in its own process, which is idle between two calls. A context manager.

    What the process writes to its standard error is shown when it ends, but not after Ctrl-C. If it dies,
    every method raises :class:`~agentrt.errors.BenchProcessError` with its last lines.
    """

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        """Start the process and wait until ``make(*arguments)``, a module's function, has made the object."""
        spawn = multiprocessing.get_context("spawn")
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self._stderr = Path(self._folder.name) / "stderr"
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(theirs, str(self._stderr), make, arguments), daemon=True
        )
        try:
            with _interrupts_blocked():  # one that came meanwhile is raised at the block's end
                self._process.start()
            theirs.close()
            self._answer()
        except BaseException as error:
            if self._process.pid is not None:
                self.__exit__(type(error), error, error.__traceback__)
            raise

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of the process so far, with those of its children; None outside of Linux."""
        if sys.platform != "linux" or self._process.pid is None:
            return None
        return _cpu_ticks(self._process.pid) / os.sysconf("SC_CLK_TCK")

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method of the object and return its result, or read an attribute; raise what it raises."""
        try:
            self._connection.send((method, arguments))
        except OSError as error:
            raise self._death() from error
        return self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process.

        Raises:
            BenchProcessError: the process died during the block, which is why the block raised another error.
        """
        if not self._stderr.parent.exists():
            return  # the process has died, and its last lines are in the error
        self._connection.close()
        self._process.join(_JOIN_S)
        if isinstance(exc, Exception) and self._process.exitcode not in (0, None):
            raise self._death() from exc
        self._process.kill()
        written = self._take_stderr()
        if not isinstance(exc, KeyboardInterrupt):  # which it says, too, with a traceback
            sys.stderr.write(written)

    def _answer(self) -> Any:
        try:
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _death(self) -> BenchProcessError:
        self._connection.close()
        self._process.join(_JOIN_S)
        return BenchProcessError(self._process.exitcode, self._take_stderr().splitlines()[-_LAST_LINES:])

    def _take_stderr(self) -> str:
        """Return what the process has written, once, when it has ended."""
        with self._folder:
            return self._stderr.read_text("utf-8", "replace") if self._stderr.exists() else ""


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in the block, and in a process that it starts until that unblocks it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start unblocks them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cpu_ticks(process: int) -> int:
    """Return the clock ticks of a process and of its children that run."""
    folder = Path(f"/proc/{process}")
    # Behind the name, which may have spaces: state, and from the 12th on user and system time.
    fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    for thread in folder.glob("task/*/children"):
        children: list[str] = []
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            children = thread.read_text().split()
        for child in children:
            with suppress(FileNotFoundError, ProcessLookupError):  # so has the child
                ticks += _cpu_ticks(int(child))
    return ticks


def _serve(
    connection: Connection, stderr: str, make: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    """Main function of the process: answer calls until the pipe is closed."""
    # The descriptor and not sys.stderr: libraries in C++ write their last words there.
    with open(stderr, "wb") as file:
        os.dup2(file.fileno(), 2)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    faulthandler.enable()
    try:
        side = make(*arguments)
        connection.send(None)
        while True:
            try:
                method, passed = connection.recv()
            except EOFError:
                return
            found = getattr(side, method)
            connection.send(found(*passed) if callable(found) else found)
    except Exception as error:  # noqa: BLE001 - it is raised again where the call was made
        connection.send(error)
