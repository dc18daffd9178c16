"""Bounds of the caches in which OpenVINO's CPU plugin keeps kernels for input shapes that it has seen.

The plugin compiles a matrix multiplication anew for each number of rows, here the tokens of a batch: some
100 KiB for each, in less than a millisecond. Two caches keep these kernels: each compiled piece of a model
has one of 5,000 entries of each kind, and oneDNN has one of 1,024 entries for the process. With these
capacities, memory would grow with each new length of a prompt, by hundreds of MiB in all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import openvino as ov

_ENTRIES: Final = 512
"""Kernels in each cache. A batch uses five or so of one kind, so that the latest 100 numbers of tokens recur
without a new kernel: those of single tokens, batches, drafts and full chunks among them."""

_PIECE_CACHE: Final = {"CPU_RUNTIME_CACHE_CAPACITY": str(_ENTRIES)}
_ONEDNN_CACHE: Final = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


@contextmanager
def _onednn_capacity() -> Iterator[None]:
    """Have oneDNN read the capacity of its cache from the environment, unless the user has set one."""
    if _ONEDNN_CACHE in os.environ:
        yield
        return
    os.environ[_ONEDNN_CACHE] = str(_ENTRIES)
    try:
        yield
    finally:
        del os.environ[_ONEDNN_CACHE]


def bound_kernel_caches(core: ov.Core) -> Mapping[str, Any]:
    """Bound oneDNN's cache, and return the properties with which to compile pieces for the CPU.

    The properties are undocumented: there are none with an OpenVINO that does not know them. Call it before
    anything is compiled; oneDNN reads its capacity once, when it makes its first kernel.
    """
    rows = ov.opset13.parameter([-1, 1], np.float32)
    weights = ov.opset13.constant(np.ones((1, 1), np.float32))
    model = ov.Model([ov.opset13.matmul(rows, weights, False, False)], [rows])
    with _onednn_capacity():
        try:
            core.compile_model(model, "CPU", _PIECE_CACHE)
        except RuntimeError:
            core.compile_model(model, "CPU")
            return {}
    return _PIECE_CACHE
