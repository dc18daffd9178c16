"""What makes commands start sooner."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def postponed_collections() -> Iterator[Callable[[], None]]:
    """Collect no garbage until the yielded function is called, or to the end of the block.

    Imports make hundreds of thousands of objects that stay. Each full collection would look at all of them:
    those that are there when the function is called are never looked at any more.
    """

    def collect() -> None:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()

    gc.disable()
    try:
        yield collect
    finally:
        gc.enable()
