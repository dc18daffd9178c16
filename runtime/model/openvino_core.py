"""The process's OpenVINO core, and how to load models without touching this thread's signal handling."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import openvino as ov

from agentrt.concurrency.native_calls import native_calls
from agentrt.concurrency.threads import start_in_thread

from .kernel_caches import bound_kernel_caches

T = TypeVar("T")


def load_on_own_thread(load: Callable[[], T]) -> T:
    """Return ``load()``, run on a new thread. Use it for everything that may load OpenVINO's CPU plugin.

    Each core loads the plugin anew. The plugin replaces the alternate signal stack of the thread that loads
    it, and unmaps that stack when the core is destroyed. It then restores the stack from before, which may
    no longer exist either, or, on another thread, restores nothing. The next Ctrl-C would be handled on
    unmapped memory and the process would die without a message. A thread that ends needs no signal stack.
    """
    with native_calls:
        return start_in_thread(load, name="agentrt-load", daemon=False).result()


def openvino_core() -> ov.Core:
    """The core that reads and compiles every model of this process."""
    return _loaded()[0]


def piece_properties(device: str) -> Mapping[str, Any]:
    """Return the properties with which each piece of a model is compiled for ``device``, such as ``CPU``."""
    return _loaded()[1] if device.partition(".")[0] == "CPU" else {}


@functools.cache
def _loaded() -> tuple[ov.Core, Mapping[str, Any]]:
    """The core, with the CPU plugin loaded, and the properties of pieces for the CPU."""

    def load() -> tuple[ov.Core, Mapping[str, Any]]:
        core = ov.Core()
        properties = bound_kernel_caches(core)  # loads the plugin
        native_calls.keep_in_forks(core)
        return core, properties

    return load_on_own_thread(load)


def openvino_message(error: Exception) -> str:
    """What happened, as one sentence: the last line of an OpenVINO error, without its source locations."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") + "." if lines else type(error).__name__
