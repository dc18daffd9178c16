"""A real OpenVINO operation that never ends: it ignores cancellation and blocks its thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import openvino as ov
import pytest

from agentrt.runtime.model.read_graph import read_paged_graph
from agentrt.runtime.xpu import device, loading, watchdog
from tests.runtime.conftest import OpenRuntime
from tests.runtime.engine.test_engine import PROMPT, submit

pytestmark = pytest.mark.check


class Sticky(ov.Op):
    """Copies its input. If armed, it first blocks the thread of the kernel until it is released."""

    class_type_info = ov.DiscreteTypeInfo("Sticky", "extension")
    armed = threading.Event()
    reached = threading.Event()
    released = threading.Event()

    def __init__(self, inputs: Any = None) -> None:
        super().__init__(self, inputs)

    def validate_and_infer_types(self) -> None:
        self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

    def clone_with_new_inputs(self, new_inputs: Any) -> Sticky:
        return Sticky(new_inputs)

    def get_type_info(self) -> ov.DiscreteTypeInfo:
        return Sticky.class_type_info

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        if self.armed.is_set():
            self.armed.clear()
            self.reached.set()
            self.released.wait()
        outputs[0].shape = inputs[0].shape
        inputs[0].copy_to(outputs[0])
        return True

    def has_evaluate(self) -> bool:
        return True


def sticky_graph(directory: Any, **_: bool) -> ov.Model:
    """Return the model with the operation before its logits."""
    model = read_paged_graph(directory)
    last = model.get_results()[0].input(0)
    sticky = Sticky([last.get_source_output()])
    sticky.set_friendly_name("sticky")
    last.replace_source_output(sticky.output(0))
    model.validate_nodes_and_infer_types()
    return model


@pytest.fixture
def sticky(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Sticky]]:
    monkeypatch.setattr(loading, "read_paged_graph", sticky_graph)
    monkeypatch.setattr(watchdog, "GRACE_S", 0.05)
    monkeypatch.setattr(device, "GRACE_S", 0.05)
    monkeypatch.setattr(watchdog, "_CHECK_EVERY_S", 0.02)
    for event in (Sticky.armed, Sticky.reached, Sticky.released):
        event.clear()
    yield Sticky
    Sticky.released.set()


@pytest.mark.parametrize(("platform", "quick"), [("cpu", True), ("cpu", False), ("emulated", False)])
def test_requests_go_on_although_the_operation_never_ends(
    open_runtime: OpenRuntime,
    sticky: type[Sticky],
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    quick: bool,
) -> None:
    monkeypatch.setattr(device, "_QUICK_S", 1e9 if quick else 0.0)
    runtime = open_runtime(platform=platform)
    expected = submit(runtime, 12).output.result(120)
    monkeypatch.setattr(type(runtime._engine._scheduler), "hang_timeout_s", lambda self, cost: 3.0)
    lost = runtime._engine._thread

    def arm(_: object) -> None:  # on the engine thread: before the next kernel, however slow this thread is
        if not sticky.reached.is_set():
            sticky.armed.set()

    request = submit(runtime, 12, listener=arm)
    assert request.output.result(120).token_ids == expected.token_ids
    assert sticky.reached.is_set()
    assert not sticky.released.is_set(), "it is still stuck"
    assert submit(runtime, 12, prompt=PROMPT[:20]).output.result(60).stop_reason == "length"
    assert runtime.statistics().engine.rebuilds == 1
    assert (lost is not runtime._engine._thread) == quick
    sticky.released.set()  # the lost kernel ends after all, without effect
    if quick:
        lost.join(30)
        assert not lost.is_alive()
    assert submit(runtime, 12).output.result(60).token_ids == expected.token_ids


def test_a_runtime_closes_although_the_operation_never_ends(
    open_runtime: OpenRuntime, sticky: type[Sticky], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_QUICK_S", 1e9)
    runtime = open_runtime()
    submit(runtime, 2).output.result(60)
    monkeypatch.setattr(type(runtime._engine._scheduler), "hang_timeout_s", lambda self, cost: 0.5)
    sticky.armed.set()
    request = submit(runtime, 12)
    assert sticky.reached.wait(30)
    runtime.close()
    assert request.output.exception(1) is not None
    assert not sticky.released.is_set()
