"""The runtimes that chat models of this process have opened by name: each is open while one refers to it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime


_opening = threading.Lock()
_opened: WeakValueDictionary[str, LocalRuntime] = WeakValueDictionary()
_kept: dict[str, LocalRuntime] = {}


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()  # a thread that the child does not have may hold the other one


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_after_fork)


def open_by_name(model: str) -> LocalRuntime:
    """Return the runtime of ``model``, a name or a path; it is opened unless it is open. Thread-safe.

    Raises:
        AgentRTError: as :meth:`LocalRuntime.open` raises it.
    """
    from agentrt.runtime import LocalRuntime

    name = _lasting_name(model)
    with _opening:
        runtime = _opened.get(name)
        if runtime is None or runtime.closed:
            runtime = _opened[name] = LocalRuntime.open(name)
    return runtime


def name_of(runtime: LocalRuntime) -> str | None:
    """Return the name by which another process opens the same model; None if it was not opened here."""
    return next((name for name, opened in list(_opened.items()) if opened is runtime), None)


def keep(runtime: LocalRuntime) -> None:
    """Keep a runtime of :func:`open_by_name` until the process ends.

    A worker gets a pickled chat model with each task: it would open the model each time.
    """
    name = name_of(runtime)
    if name is not None:
        _kept[name] = runtime


def _lasting_name(model: str) -> str:
    """Return a path as an absolute one, which is the same in every folder; other names as they are."""
    from agentrt.runtime import find_model

    if not model:
        return model  # not the current folder, which realpath() makes of it: opening it raises
    path = os.path.realpath(model)
    return path if os.path.realpath(find_model(model)) == path else model
