from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import openvino as ov
import pytest

from agentrt.runtime.xpu.compiled import BoundInference
from tests.runtime.tiny import tiny_folder

__all__ = ["tiny_folder"]


class Hang:
    """An infer request that does not return until ``released`` is set, or it heeds a cancellation."""

    def __init__(self, request: Any, heeds_cancel: bool) -> None:
        self._request = request
        self._cancelled = threading.Event()
        self.waiting = threading.Event()
        self.released = threading.Event()
        self._heeds_cancel = heeds_cancel

    def start_async(self, share_inputs: bool) -> None:
        pass

    def infer(self, share_inputs: bool, share_outputs: bool) -> None:
        self.wait_for(int(1e9))

    def cancel(self) -> None:
        if self._heeds_cancel:
            self._cancelled.set()
            self.released.set()

    def wait_for(self, timeout_ms: int) -> bool:
        self.waiting.set()
        ended = self.released.wait(min(timeout_ms / 1e3, threading.TIMEOUT_MAX))
        if self._cancelled.is_set():
            raise RuntimeError("Infer Request was canceled")
        return ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


@pytest.fixture
def hang_next(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleQueue[Hang]]:
    """Makes the next bound inference hang; returns the queue that receives it."""

    def install(*, heeds_cancel: bool) -> SimpleQueue[Hang]:
        hangs: SimpleQueue[Hang] = SimpleQueue()
        bind = BoundInference.bind

        def hang(self: BoundInference, buffers: Any, begin: int) -> None:
            bind(self, buffers, begin)
            monkeypatch.setattr(BoundInference, "bind", bind)
            self.request = Hang(self.request, heeds_cancel)
            hangs.put(self.request)

        monkeypatch.setattr(BoundInference, "bind", hang)
        return hangs

    return install


@pytest.fixture
def break_inferences(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives every inference an input that OpenVINO refuses; returns what ends that."""
    bind = BoundInference.bind

    def bind_wrong(self: BoundInference, buffers: Any, begin: int) -> None:
        bind(self, buffers, begin)
        self.request.set_input_tensor(0, ov.Tensor(np.zeros((1,) * 7, np.float64)))

    monkeypatch.setattr(BoundInference, "bind", bind_wrong)
    return lambda: monkeypatch.setattr(BoundInference, "bind", bind)
