"""The process's OpenVINO core, and how to load models without touching this thread's signal handling."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import openvino as ov

from agentrt.concurrency.native_calls import native_calls
from agentrt.concurrency.threads import start_in_thread

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


def has_bf16(device: str) -> bool:
    """Return whether ``device`` has instructions for bf16."""
    return "BF16" in openvino_core().get_property(device, "OPTIMIZATION_CAPABILITIES")


def attends_alike_in_bf16() -> bool:
    """Return whether the CPU has bf16, and attention in it is known to compute each token alike in any batch.

    Of processors with matrix tiles (AMX), on which OpenVINO has other kernels for it, that is not known.
    """
    flags = Path("/proc/cpuinfo")
    return has_bf16("CPU") and flags.exists() and "amx_tile" not in flags.read_text()


def piece_properties(device: str) -> Mapping[str, Any]:
    """Return the properties with which each piece of a model is compiled for ``device``, such as ``CPU``."""
    return _loaded()[1] if device.partition(".")[0] == "CPU" else {}


@functools.cache
def _loaded() -> tuple[ov.Core, Mapping[str, Any]]:
    """The core, with the CPU plugin loaded, and the properties of pieces for the CPU."""

    def load() -> tuple[ov.Core, Mapping[str, Any]]:
        core = ov.Core()
        properties = _bound_kernel_caches(core)  # loads the plugin
        native_calls.keep_in_forks(core)
        return core, properties

    return load_on_own_thread(load)


def openvino_message(error: Exception) -> str:
    """What happened, as one sentence: the last line of an OpenVINO error, without its source locations."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{(lines or [type(error).__name__])[-1].rstrip('.')}."


_ENTRIES: Final = 512
"""Kernels in each cache. A batch uses five or so of one kind, so that the latest 100 numbers of tokens recur
without a new kernel: those of single tokens, batches, drafts and full chunks among them."""

_PIECE_CACHE: Final = {"CPU_RUNTIME_CACHE_CAPACITY": str(_ENTRIES)}
_ONEDNN_CACHE: Final = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def _bound_kernel_caches(core: ov.Core) -> Mapping[str, Any]:
    """Bound oneDNN's cache, unless the user has, and return the properties of pieces for the CPU.

    The properties are undocumented: there are none with an OpenVINO that does not know them. Call it before
    anything is compiled; oneDNN reads its capacity once, from the environment, for its first kernel.
    """
    rows = ov.opset13.parameter([-1, 1], np.float32)
    weights = ov.opset13.constant(np.ones((1, 1), np.float32))
    model = ov.Model([ov.opset13.matmul(rows, weights, False, False)], [rows])
    is_ours = _ONEDNN_CACHE not in os.environ
    os.environ.setdefault(_ONEDNN_CACHE, str(_ENTRIES))
    try:
        core.compile_model(model, "CPU", _PIECE_CACHE)
    except RuntimeError:
        core.compile_model(model, "CPU")
        return {}
    finally:
        if is_ours:
            del os.environ[_ONEDNN_CACHE]
    return _PIECE_CACHE
