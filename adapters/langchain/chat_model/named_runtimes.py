"""The runtimes that chat models of this process have opened by the names of their models."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime


class NamedRuntimes:
    """One runtime for each model, open as long as something refers to it. Thread-safe."""

    def __init__(self) -> None:
        """Without runtimes."""
        self._opening = threading.Lock()
        if hasattr(os, "register_at_fork"):  # where processes fork
            os.register_at_fork(after_in_child=self._after_fork)
        self._opened: WeakValueDictionary[str, LocalRuntime] = WeakValueDictionary()
        self._kept: dict[str, LocalRuntime] = {}

    def _after_fork(self) -> None:
        self._opening = threading.Lock()  # a thread that the child does not have may hold the other one

    def open(self, model: str) -> LocalRuntime:
        """Return the runtime of ``model``, a name or a path; it is opened unless it is open.

        Raises:
            AgentRTError: as :meth:`LocalRuntime.open` raises it.
        """
        from agentrt.runtime import LocalRuntime

        name = _lasting_name(model)
        with self._opening:
            runtime = self._opened.get(name)
            if runtime is None or runtime.closed:
                runtime = self._opened[name] = LocalRuntime.open(name)
        return runtime

    def name_of(self, runtime: LocalRuntime) -> str | None:
        """Return the name by which another process opens the same model; None if it was not opened here."""
        return next((name for name, opened in list(self._opened.items()) if opened is runtime), None)

    def keep(self, runtime: LocalRuntime) -> None:
        """Keep a runtime of :meth:`open` until the process ends.

        A worker gets a pickled chat model with each task: it would open the model each time.
        """
        name = self.name_of(runtime)
        if name is not None:
            self._kept[name] = runtime


def _lasting_name(model: str) -> str:
    """Return a path as an absolute one, which is the same in every folder; other names as they are."""
    from agentrt.runtime import find_model

    if not model:
        return model  # not the current folder, which realpath() makes of it: opening it raises
    path = os.path.realpath(model)
    return path if os.path.realpath(find_model(model)) == path else model


NAMED_RUNTIMES: Final = NamedRuntimes()
"""Those of this process."""
