"""Opens the models of a chat: the first one on a thread, while this one imports what talks with it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...concurrency.threads import start_in_thread
from ...errors import ContextStoreError
from ..kept_contexts import HOW_TO_SEE, own_context_folder, own_contexts
from ..output import opening_bar

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime, OpeningStep


class ModelOpener(AbstractContextManager["ModelOpener"]):
    """Opens models on a thread or at once. What was not taken at the end of the ``with`` block is closed."""

    def __init__(self, *, keeps_contexts: bool = False) -> None:
        """Nothing is being opened.

        With ``keeps_contexts`` what a model has computed is in the user's folder, and the next chat finds it.
        """
        self.told: Sequence[str] = ()
        """What the user is told of the model that was opened last: where its contexts are."""
        self._keeps_contexts = keeps_contexts
        self._begun: tuple[str, Future[LocalRuntime]] | None = None
        self._step: OpeningStep | None = None
        self._show: Callable[[OpeningStep], None] = lambda step: None
        self._awaited = threading.Event()
        self._ended = False

    def begin(self, model: str) -> None:
        """Begin to open ``model``, which :meth:`open` then returns."""
        # Imported on this thread: two that import modules of one package may wait for each other.
        import agentrt.examples.assistant.model  # noqa: F401

        work = functools.partial(self._open, model, self._on_step)
        self._begun = (model, start_in_thread(work, name="agentrt-opening", daemon=False))

    def open(self, model: str) -> LocalRuntime:
        """Return ``model``, open; show meanwhile how far that is.

        Raises:
            ModelError: it cannot be opened.
        """
        with opening_bar() as show:
            if self._begun is None or self._begun[0] != model:
                return self._open(model, show)
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

    def _open(self, model: str, on_step: Callable[[OpeningStep], None]) -> LocalRuntime:
        from agentrt.examples.assistant.model import open_runtime

        contexts: dict[str, Any] = {}
        self.told = ()
        if self._keeps_contexts:
            try:
                contexts = own_contexts(model)
                self.told = [f"Contexts are kept in {own_context_folder()}: {HOW_TO_SEE}."]
            except ContextStoreError as error:
                self.told = [f"Contexts are kept in memory only: {error}"]
        return open_runtime(model, on_step, **contexts)

    def _on_step(self, step: OpeningStep) -> None:
        self._step = step
        if step.name.startswith("measuring"):
            self._awaited.wait()  # imports would take the processor from what is measured
        if self._ended:
            raise _NotWantedError
        self._show(step)


class _NotWantedError(Exception):
    """The chat has ended before its model was open."""
