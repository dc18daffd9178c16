"""Errors of the user's code in a speculation: they end the speculation, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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

    So do SystemExit, GeneratorExit, and a CancelledError that the code raises by itself. A Ctrl-C of the
    user, which comes to the main thread, and a cancellation of this task are meant for more than that.
    """
    if isinstance(error, asyncio.CancelledError):
        return not _is_cancelled()
    return not (
        isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
    )


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0
