"""Errors of the user's code in a speculation: they end the speculation, and nothing else."""

from __future__ import annotations

import asyncio
import dis
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

_RAISED_OR_AWAITED: Final = {
    dis.opmap[name]
    for name in ("RAISE_VARARGS", "RERAISE", "SEND", "YIELD_VALUE", "JUMP_BACKWARD_NO_INTERRUPT")
    if name in dis.opmap
}
"""Instructions at which code raises an exception, or an await that of a future; no signal comes there."""


@contextmanager
def contained(failed: Callable[[BaseException], object]) -> Iterator[None]:
    """Run a tool, a predictor or other code of the user, speculatively, in the block.

    What it raises is passed to ``failed`` and ends nothing else: see :func:`is_own_failure`.
    """
    try:
        yield
    except BaseException as error:
        if not is_own_failure(error):
            raise
        failed(error)


def is_own_failure(error: BaseException) -> bool:
    """Whether an error in a speculation says only that the code which raised it has failed.

    So do SystemExit, GeneratorExit, and a KeyboardInterrupt or CancelledError that the code raises by itself.
    A Ctrl-C of the user and a cancellation of this task are meant for more than the speculation.
    """
    if isinstance(error, asyncio.CancelledError):
        return not _is_cancelled()
    return not (isinstance(error, KeyboardInterrupt) and _came_as_signal(error.__traceback__))


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0


def _came_as_signal(traceback: TracebackType | None) -> bool:
    """Whether a KeyboardInterrupt comes of Ctrl-C: raised by its handler, or between two instructions."""
    if threading.current_thread() is not threading.main_thread():  # signals are handled in that one only
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    while isinstance(handler, functools.partial):
        handler = handler.func
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    instruction = None
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            return True
        instruction = traceback.tb_frame.f_code.co_code[traceback.tb_lasti]
        traceback = traceback.tb_next
    return instruction not in _RAISED_OR_AWAITED
