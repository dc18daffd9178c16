"""A reactive request interrupts the kernel of a background prompt, which computes the same later."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.engine.engine_group import EngineGroup
from agentrt.runtime.scheduler.policy import POLICIES
from tests.runtime.engine.test_engine import submit

LONG = [300 + token % 400 for token in range(1600)]
QUESTIONS = [[400 + token % 50 for token in range(length)] for length in (1, 9, 40, 200)]


@pytest.fixture(autouse=True)
def _always_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often questions come, kernels are long enough to be interrupted."""
    monkeypatch.setitem(POLICIES, "agent-xpu", replace(POLICIES["agent-xpu"], calm_s=0.0))


@pytest.mark.matrix
@pytest.mark.parametrize("precision", ["f32", "u8"])
@pytest.mark.parametrize("chunk", [256, 2048])
def test_tokens_are_those_without_an_interruption(
    open_runtime: Callable[..., LocalRuntime], precision: str, chunk: int
) -> None:
    runtime = open_runtime(kv_cache_precision=precision, prefill_chunk_tokens=chunk)
    begun = time.perf_counter()
    expected = submit(runtime, 12, prompt=LONG).output.result(60).token_ids
    seconds = time.perf_counter() - begun
    answers = [submit(runtime, 6, prompt=question).output.result(60).token_ids for question in QUESTIONS]
    rng = random.Random(chunk)
    with runtime.record_trace() as trace:
        for _ in range(25):
            background = submit(runtime, 12, prompt=LONG, priority=Priority.PROACTIVE)
            for _ in range(3):
                time.sleep(rng.uniform(0, seconds / 3))
                place = rng.randrange(len(QUESTIONS))
                asked = submit(runtime, 6, prompt=QUESTIONS[place])
                assert asked.output.result(60).token_ids == answers[place]
            assert background.output.result(60).token_ids == expected
    interrupted = [kernel for kernel in trace.kernels if kernel.interrupted]
    assert interrupted
    assert not any(kernel.reactive or kernel.stage != "prefill" for kernel in interrupted)
    assert runtime.statistics().engine.rebuilds == 0


def test_background_requests_interrupt_nothing(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime(prefill_chunk_tokens=2048)
    with runtime.record_trace() as trace:
        requests = []
        for _ in range(10):
            requests.append(submit(runtime, 2, prompt=LONG, priority=Priority.PROACTIVE))
            time.sleep(0.005)
        for request in requests:
            request.output.result(60)
    assert not any(kernel.interrupted for kernel in trace.kernels)


def test_models_of_a_group_interrupt_each_other(open_runtime: Callable[..., LocalRuntime]) -> None:
    group = EngineGroup()
    first = open_runtime(group=group, prefill_chunk_tokens=2048)
    second = open_runtime(group=group)
    expected = submit(first, 4, prompt=LONG).output.result(60).token_ids
    rng = random.Random(0)
    with first.record_trace() as trace:
        for _ in range(40):
            background = submit(first, 4, prompt=LONG, priority=Priority.PROACTIVE)
            time.sleep(rng.uniform(0.001, 0.03))
            submit(second, 4, prompt=QUESTIONS[1]).output.result(60)
            assert background.output.result(60).token_ids == expected
            if any(kernel.interrupted for kernel in trace.kernels):
                return
    raise AssertionError("no kernel was interrupted")
