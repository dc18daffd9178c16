"""Kernels that end early when a more urgent request arrives, and run again."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from agentrt.runtime.heg.kernel import BatchContext, Role
from agentrt.runtime.xpu.loading import LoadedModel
from agentrt.runtime.xpu.protocol import KernelDone
from tests.runtime.tiny import Piece, begin, forward, load, tiny_model, unpack_hybrid
from tests.runtime.xpu.conftest import Hang

LONG = [300 + token % 200 for token in range(2000)]
"""Tokens that take tens of milliseconds in one kernel."""
TABLE = range(63)


@pytest.fixture(params=["f32", "u8"])
def loaded(tiny_folder: Path, request: pytest.FixtureRequest) -> Iterator[LoadedModel]:
    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": request.param}
    loaded = load(tiny_model(tiny_folder, "qwen2"), properties=properties)
    yield loaded
    loaded.platform.close()


def run(loaded: LoadedModel, context: BatchContext) -> KernelDone:
    """Run the next kernel so that it can be interrupted; advance the batch if it was not."""
    kernel = context.next_kernel
    assert kernel is not None
    done = loaded.platform.xpus[Role.DECODE].run(kernel, context, 30, interruptible=True)
    assert done is not None
    assert done.error is None
    context.position += not done.interrupted
    return done


def long_batch(loaded: LoadedModel) -> BatchContext:
    return begin(loaded, Piece(LONG, table=TABLE))


@pytest.mark.check
def test_an_interrupted_kernel_computes_the_same_when_it_runs_again_and_others_in_between(
    loaded: LoadedModel,
) -> None:
    """Also those with as many tokens as the last one before the interruption (:class:`InferenceShapes`)."""
    lengths = [(1,), (1,), (20,), (20,), (7,), (90,), (10, 10), (1, 19), (1, 1), (7, 1, 12)]
    batches = [
        [Piece(LONG[:tokens], table=range(60 + at, 63)) for at, tokens in enumerate(each)] for each in lengths
    ]
    longest = Piece(LONG[:1900], table=range(60))
    expected, *others = [forward(loaded, *each) for each in ([longest], *batches)]
    xpu = loaded.platform.xpus[Role.DECODE]
    rng = random.Random(0)
    interrupted = 0
    for _ in range(30):
        context = begin(loaded, longest)
        latest_s = 0.012
        while context.next_kernel is not None:
            timer = threading.Timer(rng.uniform(0, latest_s), xpu.interrupt)
            timer.start()
            done = run(loaded, context)
            timer.join()
            latest_s = 2 * latest_s if done.interrupted else 0.012  # a slow machine's kernels end, too
            xpu.allow_kernels()
            interrupted += done.interrupted
            for _ in range(3 if done.interrupted else 0):
                other = rng.randrange(len(batches))
                np.testing.assert_array_equal(forward(loaded, *batches[other]), others[other])
        assert context.logits is not None
        np.testing.assert_array_equal(context.logits, expected)
        loaded.platform.release(context)
    assert interrupted > 5


def test_none_starts_until_it_may_and_other_kernels_go_on(loaded: LoadedModel) -> None:
    """The request came between two kernels: it is remembered."""
    expected = forward(loaded, Piece(LONG, table=TABLE))
    xpu = loaded.platform.xpus[Role.DECODE]
    context = long_batch(loaded)
    xpu.interrupt()
    assert run(loaded, context).interrupted
    assert run(loaded, context).interrupted
    assert context.position == 0
    np.testing.assert_array_equal(forward(loaded, Piece(LONG, table=TABLE)), expected)
    xpu.allow_kernels()
    assert not run(loaded, context).interrupted


def test_a_kernel_that_does_not_heed_it_hangs(
    loaded: LoadedModel, hang_next: Callable[..., SimpleQueue[Hang]]
) -> None:
    xpu = loaded.platform.xpus[Role.DECODE]
    context = long_batch(loaded)
    kernel = context.next_kernel
    assert kernel is not None
    hangs = hang_next(heeds_cancel=False)
    hung: list[Hang] = []

    def interrupt() -> None:  # not before the kernel, which would not start
        hung.append(hangs.get(timeout=30))
        assert hung[0].waiting.wait(30)
        xpu.interrupt()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    assert xpu.run(kernel, context, 0.05, interruptible=True) is None
    interrupting.join()
    hung[0].released.set()


@pytest.mark.usefixtures("break_inferences")
def test_a_fault_is_no_interruption(loaded: LoadedModel) -> None:
    context = long_batch(loaded)
    kernel = context.next_kernel
    assert kernel is not None
    done = loaded.platform.xpus[Role.DECODE].run(kernel, context, 30, interruptible=True)
    assert done is not None
    assert done.error is not None
    assert not done.interrupted


@pytest.mark.parametrize("platform", ["cpu", "emulated"])
def test_kernels_of_one_cpu_are_interrupted(tiny_folder: Path, platform: str) -> None:
    loaded = load(tiny_model(tiny_folder, "qwen2"), platform, static_tokens=32)
    limit = loaded.graph.interruptible_s
    loaded.platform.close()
    assert (limit is None) == (platform == "emulated")
    assert limit is None or limit == 4 * loaded.graph.quantum_s


@pytest.mark.slow
def test_a_hybrid_model_is_not_interrupted(tmp_path: Path) -> None:
    """Its states are updated in place."""
    loaded = load(unpack_hybrid("qwen3.5", tmp_path))
    assert loaded.graph.interruptible_s is None
    loaded.platform.close()
