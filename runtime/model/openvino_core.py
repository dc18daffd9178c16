"""OpenVINO loaded so that it leaves the signal handlers of this process alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import openvino as ov

T = TypeVar("T")


def load_elsewhere(load: Callable[[], T]) -> T:
    """Return ``load()``, run on a thread of its own: for whatever may make OpenVINO load its CPU plugin.

    Each core loads the plugin anew, and the plugin gives the thread that loads it a stack for signal
    handlers, which it unmaps when the core goes. What it puts back is the stack from before, which may be
    gone as well, and from another thread it puts back nothing. The next Ctrl-C would be handled on memory
    that is not there, and the process die without a word. A thread that ends needs no such stack.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="agentrt-load") as thread:
        return thread.submit(load).result()


@functools.cache
def openvino_core() -> ov.Core:
    """The core that every model of this process is read and compiled with."""

    def load() -> ov.Core:
        core = ov.Core()
        core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the plugin
        return core

    return load_elsewhere(load)
