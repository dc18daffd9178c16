from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from agentrt.errors import EngineFailedError
from agentrt.runtime.heg.kernel import BatchContext, Kernel, KernelKind, Role
from agentrt.runtime.xpu import device, watchdog
from agentrt.runtime.xpu.loading import LoadedModel
from agentrt.runtime.xpu.protocol import KernelDone
from agentrt.runtime.xpu.watchdog import Watchdog
from tests.patience import PATIENCE_S, until
from tests.runtime.tiny import Piece, begin, finish, forward, load, step, tiny_model
from tests.runtime.xpu.conftest import Hang

TOKENS = list(range(20, 60))


@pytest.fixture
def loaded(tiny_folder: Path) -> Iterator[LoadedModel]:
    loaded = load(tiny_model(tiny_folder, "qwen2"))
    yield loaded
    loaded.platform.close()


def first_kernel(context: BatchContext) -> Kernel:
    kernel = context.next_kernel
    assert kernel is not None
    return kernel


def submit_next(loaded: LoadedModel, context: BatchContext) -> SimpleQueue[KernelDone]:
    kernel = first_kernel(context)
    done: SimpleQueue[KernelDone] = SimpleQueue()
    loaded.platform.xpus[kernel.roles[0]].submit(kernel, context, done.put)
    return done


def test_submitted_kernels_run_on_a_thread_of_the_xpu(loaded: LoadedModel) -> None:
    expected = forward(loaded, Piece(TOKENS))
    context = begin(loaded, Piece(TOKENS))
    threads = set()
    while (kernel := context.next_kernel) is not None:
        done: SimpleQueue[tuple[KernelDone, str]] = SimpleQueue()
        loaded.platform.xpus[Role.DECODE].submit(
            kernel, context, lambda event, done=done: done.put((event, threading.current_thread().name))
        )
        event, thread = done.get(timeout=30)
        threads.add(thread)
        assert (event.context, event.kernel, event.role, event.error) == (context, kernel, Role.DECODE, None)
        assert event.started <= event.ended <= loaded.platform.now()
        context.position += 1
    assert context.logits is not None
    np.testing.assert_array_equal(context.logits, expected)
    assert threads == {"agentrt-decode"}


def test_two_xpus_run_at_the_same_time(
    tiny_folder: Path, hang_next: Callable[..., SimpleQueue[Hang]]
) -> None:
    loaded = load(tiny_model(tiny_folder, "qwen2"), "emulated", static_tokens=32)
    split = begin(loaded, Piece(TOKENS[:32]))
    hangs = hang_next(heeds_cancel=True)
    running = submit_next(loaded, split)
    hangs.get(timeout=30).waiting.wait(30)
    # The PREFILL XPU is busy; the DECODE XPU is not.
    forward(loaded, Piece(TOKENS, table=range(8, 16)))
    assert running.empty()
    loaded.platform.close()


@pytest.mark.matrix
@pytest.mark.parametrize("heeds_cancel", [True, False])
@pytest.mark.parametrize("blocking", [True, False])
def test_hung_kernel_is_abandoned_and_other_batches_continue(
    loaded: LoadedModel,
    hang_next: Callable[..., SimpleQueue[Hang]],
    monkeypatch: pytest.MonkeyPatch,
    heeds_cancel: bool,
    blocking: bool,
) -> None:
    monkeypatch.setattr(device, "GRACE_S", 0.01)
    monkeypatch.setattr(device, "_QUICK_S", 0.0)
    expected = forward(loaded, Piece(TOKENS))
    paused = begin(loaded, Piece(TOKENS))
    step(loaded, paused)
    hung = begin(loaded, Piece(TOKENS, table=range(8, 16)))
    kernel = first_kernel(hung)
    xpu = loaded.platform.xpus[Role.DECODE]
    hangs = hang_next(heeds_cancel=heeds_cancel)
    done: SimpleQueue[KernelDone] = SimpleQueue()
    if blocking:
        assert xpu.run(kernel, hung, 0.01) is None
        hang = hangs.get()
    else:
        xpu.submit(kernel, hung, done.put)
        hang = hangs.get(timeout=30)
        hang.waiting.wait(30)
    buffers = hung.buffers
    xpu.rebuild()
    assert buffers.abandoned is not heeds_cancel
    loaded.platform.release(hung)
    np.testing.assert_array_equal(finish(loaded, paused), expected)  # the other batch is unharmed
    np.testing.assert_array_equal(forward(loaded, Piece(TOKENS, table=range(8, 16))), expected)
    hang.released.set()  # it returns late: nothing is reported
    np.testing.assert_array_equal(forward(loaded, Piece(TOKENS)), expected)
    assert done.empty()


def test_hung_quick_kernel_is_cancelled_where_it_runs(
    loaded: LoadedModel, hang_next: Callable[..., SimpleQueue[Hang]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_QUICK_S", 1e9)
    monkeypatch.setattr(watchdog, "_CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog, "GRACE_S", PATIENCE_S)  # it heeds the cancellation, if late
    expected = forward(loaded, Piece(TOKENS))
    hung = begin(loaded, Piece(TOKENS))
    hangs = hang_next(heeds_cancel=True)
    xpu = loaded.platform.xpus[Role.DECODE]
    kernel = first_kernel(hung)
    assert xpu.run(kernel, hung, 0.01) is None
    assert hangs.get().waiting.is_set()
    xpu.rebuild()
    loaded.platform.release(hung)
    np.testing.assert_array_equal(forward(loaded, Piece(TOKENS)), expected)


def test_the_watchdog_sleeps_while_nothing_runs_and_wakes_for_the_next_inference(
    loaded: LoadedModel, hang_next: Callable[..., SimpleQueue[Hang]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_QUICK_S", 1e9)
    monkeypatch.setattr(watchdog, "_CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog, "GRACE_S", PATIENCE_S)  # they heed the cancellation, if late
    xpu: Any = loaded.platform.xpus[Role.DECODE]
    dog: Watchdog = xpu._watchdog
    looks: list[bool] = []
    wait = dog._wait

    def noted(*, idle: bool) -> None:
        looks.append(idle)
        wait(idle=idle)

    monkeypatch.setattr(dog, "_wait", noted)
    expected = forward(loaded, Piece(TOKENS))
    for _ in range(3):
        hung = begin(loaded, Piece(TOKENS))
        hang_next(heeds_cancel=True)
        assert xpu.run(first_kernel(hung), hung, 0.01) is None
        xpu.rebuild()
        loaded.platform.release(hung)
        until(lambda: dog._sleeps and not dog._wake.is_set())
        before = len(looks)
        time.sleep(0.1)
        assert len(looks) == before
    np.testing.assert_array_equal(forward(loaded, Piece(TOKENS)), expected)


def test_failed_kernel_is_reported_and_the_xpu_stays_usable(
    loaded: LoadedModel, break_inferences: Callable[[], None]
) -> None:
    broken = begin(loaded, Piece(TOKENS))
    kernel = first_kernel(broken)
    xpu = loaded.platform.xpus[Role.DECODE]
    done = xpu.run(kernel, broken, 60.0)
    assert done is not None
    assert isinstance(done.error, EngineFailedError)
    assert "layers" in str(done.error)
    submitted = submit_next(loaded, broken).get(timeout=30)
    assert isinstance(submitted.error, EngineFailedError)
    loaded.platform.release(broken)
    break_inferences()
    assert np.isfinite(forward(loaded, Piece(TOKENS))).all()


@pytest.mark.usefixtures("break_inferences")
def test_lost_device_is_named(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDevices:
        available_devices: tuple[str, ...] = ()

    broken = begin(loaded, Piece(TOKENS))
    kernel = first_kernel(broken)
    monkeypatch.setattr(device, "openvino_core", NoDevices)
    done = loaded.platform.xpus[Role.DECODE].run(kernel, broken, 60.0)
    assert done is not None
    assert isinstance(done.error, EngineFailedError)
    assert "CPU is lost" in str(done.error)


def test_device_that_cannot_be_rebuilt_is_lost(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise RuntimeError("No device found")

    xpu = loaded.platform.xpus[Role.DECODE]
    monkeypatch.setattr(xpu, "_recompile", gone)
    with pytest.raises(EngineFailedError, match="No device found"):
        xpu.rebuild()


def test_buffers_are_reused_and_stay_bound(loaded: LoadedModel) -> None:
    context = begin(loaded, Piece(TOKENS[:1], 40))
    step(loaded, context)
    first = context.buffers
    forward(loaded, Piece(TOKENS))  # takes buffers of its own
    loaded.platform.release(context)
    assert context.buffers is None
    again = begin(loaded, Piece(TOKENS[1:2], 41))
    step(loaded, again)
    assert again.buffers is first
    loaded.platform.release(again)
    loaded.platform.release(again)  # nothing left to release
    step(loaded, third := begin(loaded, Piece(TOKENS[:1], 42)))
    step(loaded, fourth := begin(loaded, Piece(TOKENS[:1], 42)))
    assert third.buffers is not fourth.buffers


def test_a_decode_step_makes_no_array_of_its_logits(loaded: LoadedModel) -> None:
    arrays = []
    for past in (40, 41, 42):
        context = begin(loaded, Piece(TOKENS[:1], past))
        while context.next_kernel is not None:
            step(loaded, context)
        arrays.append(context.logits)
        loaded.platform.release(context)
    assert arrays[0] is not None
    assert all(array is arrays[0] for array in arrays)


def test_memory_is_reclaimed_kernel_by_kernel(tiny_folder: Path) -> None:
    """Agent.xpu §6.5: those of prompts, which have been idle, and not those that decode."""
    loaded = load(tiny_model(tiny_folder, "qwen2"), "emulated", static_tokens=len(TOKENS))
    expected = forward(loaded, Piece(TOKENS))
    paused = begin(loaded, Piece(TOKENS))
    step(loaded, paused)
    static, dynamic = (loaded.platform.xpus[role].kernels for role in (Role.PREFILL, Role.DECODE))
    assert {kind for kind, _ in static.holding} == {KernelKind.TOKENS}
    assert {kind for kind, _ in dynamic.holding} == {KernelKind.ATTENTION, KernelKind.LAYERS}
    for kernels in (static, dynamic):
        for kind, index in kernels.holding:
            if kind is not KernelKind.LAYERS:
                kernels.note_run(kind, [index], time.perf_counter() - 100.0)
    loaded.platform.reclaim(50.0)
    assert {kind for kind, _ in static.holding | dynamic.holding} == {KernelKind.LAYERS}
    loaded.platform.reclaim(0.0)
    assert not static.holding | dynamic.holding
    np.testing.assert_array_equal(finish(loaded, paused), expected)
    np.testing.assert_array_equal(forward(loaded, Piece(TOKENS)), expected)
    loaded.platform.close()


def test_a_running_kernel_keeps_its_memory(loaded: LoadedModel) -> None:
    context = begin(loaded, Piece(TOKENS))
    kernels, kernel = loaded.platform.xpus[Role.DECODE].kernels, context.kernels[0]
    forward(loaded, Piece(TOKENS))
    kernels.release_memory(float("inf"), kernel)
    assert kernels.holding == {(kernel.kind, index) for index in kernel.segments}


def test_closing_twice_and_while_nothing_runs(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "GRACE_S", PATIENCE_S)
    submit_next(loaded, begin(loaded, Piece(TOKENS))).get(timeout=30)
    loaded.platform.close()
    loaded.platform.close()
    assert not any(thread.name == "agentrt-decode" for thread in threading.enumerate())


class Request:
    """An inference that ends at once."""

    def infer(self, **_: Any) -> None:
        pass


def test_a_closed_watchdog_has_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter aborts the process if it ends while a daemon thread wakes up."""
    monkeypatch.setattr(watchdog, "GRACE_S", PATIENCE_S)
    before = set(threading.enumerate())
    dog = Watchdog()
    assert dog.infer(Request(), time.perf_counter() + 60)  # type: ignore[arg-type]
    assert set(threading.enumerate()) - before
    dog.close()
    assert not set(threading.enumerate()) - before
    dog.close()
    Watchdog().close()
