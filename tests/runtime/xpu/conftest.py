from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import openvino as ov
import pytest

from agentrt.runtime.xpu.compiled import BoundInference
from tests.runtime.tiny import tiny_folder
from tests.runtime.xpu.hangs import Hang

__all__ = ["tiny_folder"]


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
