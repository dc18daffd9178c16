"""Opens the models of a chat: the first one on a thread, while this one imports what talks with it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ...concurrency.threads import start_in_thread
from ..output import opening_bar

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime, OpeningStep


class ModelOpener(AbstractContextManager["ModelOpener"]):
    """Opens models on a thread or at once. What was not taken at the end of the ``with`` block is closed."""

    def __init__(self) -> None:
        """Nothing is being opened."""
        self._begun: tuple[str, Future[LocalRuntime]] | None = None
        self._step: OpeningStep | None = None
        self._show: Callable[[OpeningStep], None] = lambda step: None
        self._awaited = threading.Event()
        self._ended = False

    def begin(self, model: str) -> None:
        """Begin to open ``model``, which :meth:`open` then returns."""
        # Imported on this thread: two that import modules of one package may wait for each other.
        from agentrt.examples.assistant.model import open_runtime

        work = functools.partial(open_runtime, model, self._on_step)
        self._begun = (model, start_in_thread(work, name="agentrt-opening", daemon=False))

    def open(self, model: str) -> LocalRuntime:
        """Return ``model``, open; show meanwhile how far that is.

        Raises:
            ModelError: it cannot be opened.
        """
        from agentrt.examples.assistant.model import open_runtime

        with opening_bar() as show:
            if self._begun is None or self._begun[0] != model:
                return open_runtime(model, show)
            self._show = show
            if self._step is not None:
                show(self._step)
            self._awaited.set()
            runtime = self._begun[1].result()
        self._begun = None
        return runtime

    def __exit__(self, *error: object) -> None:
        """Wait until nothing is being opened any more."""
        self._ended = True
        self._awaited.set()
        if self._begun is not None:
            opening = self._begun[1]
            wait([opening])
            if opening.exception() is None:
                opening.result().close()

    def _on_step(self, step: OpeningStep) -> None:
        self._step = step
        if step.name.startswith("measuring"):
            self._awaited.wait()  # imports would take the processor from what is measured
        if self._ended:
            raise _NotWantedError
        self._show(step)


class _NotWantedError(Exception):
    """The chat has ended before its model was open."""
