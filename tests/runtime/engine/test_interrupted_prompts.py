"""A reactive request interrupts the kernel of a background prompt, which computes the same later."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentrt.priority import Priority
from agentrt.runtime.engine.engine_group import EngineGroup
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.scheduler.policy import POLICIES
from agentrt.runtime.xpu import watchdog
from agentrt.runtime.xpu.watchdog import Interrupt
from tests.hypothesis_profiles import first_of
from tests.patience import until
from tests.runtime.conftest import OpenRuntime
from tests.runtime.engine.test_engine import submit

LONG = [300 + token % 400 for token in range(1600)]
QUESTIONS = [[400 + token % 50 for token in range(length)] for length in (1, 9, 40, 200)]


@pytest.fixture(autouse=True)
def _always_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often questions come, kernels are long enough to be interrupted."""
    monkeypatch.setitem(POLICIES, "agent-xpu", replace(POLICIES["agent-xpu"], calm_s=0.0))


@pytest.fixture
def at_inferences(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bool], None]], None]:
    """Calls a function, on the engine thread, before inferences of background prompts and while they run.

    It is told whether the inference has begun. What it submits before interrupts the inference for certain.
    """

    def install(act: Callable[[bool], None]) -> None:
        infer, wait_until = Interrupt.infer, watchdog.wait_until

        def noted_infer(self: Interrupt, request: Any, deadline: float) -> bool:
            act(False)
            return infer(self, request, deadline)

        def noted_wait(request: Any, deadline: float) -> bool:
            act(True)
            return wait_until(request, deadline)

        monkeypatch.setattr(Interrupt, "infer", noted_infer)
        monkeypatch.setattr(watchdog, "wait_until", noted_wait)

    return install


@pytest.mark.matrix
@pytest.mark.parametrize("precision", ["f32", "u8"])
@pytest.mark.parametrize("chunk", first_of([256, 2048]))
def test_tokens_are_those_without_an_interruption(
    open_runtime: OpenRuntime,
    at_inferences: Callable[[Callable[[bool], None]], None],
    precision: str,
    chunk: int,
) -> None:
    runtime = open_runtime(kv_cache_precision=precision, prefill_chunk_tokens=chunk)
    expected = submit(runtime, 12, prompt=LONG).output.result(60).token_ids
    answers = [submit(runtime, 6, prompt=question).output.result(60).token_ids for question in QUESTIONS]
    rng = random.Random(chunk)
    moments: list[bool] = []
    asked: list[tuple[int, Any]] = []

    def ask(begun: bool) -> None:
        # Large chunks are few: a question comes at the first one.
        if moments and begun is moments[-1] and (chunk == 2048 or rng.random() < 0.5):
            moments.pop()
            place = rng.randrange(len(QUESTIONS))
            asked.append((place, submit(runtime, 6, prompt=QUESTIONS[place])))

    at_inferences(ask)
    with runtime.record_trace() as trace:
        for number in range(8):
            moments[:] = rng.sample((False, True, True), 3)
            background = submit(runtime, 12, prompt=LONG, priority=Priority.PROACTIVE)
            assert background.output.result(60).token_ids == expected, number
    assert len(asked) >= 8
    for place, question in asked:
        assert question.output.result(60).token_ids == answers[place]
    interrupted = [kernel for kernel in trace.kernels if kernel.interrupted]
    assert interrupted
    assert not any(kernel.reactive or kernel.stage != "prefill" for kernel in interrupted)
    assert runtime.statistics().engine.rebuilds == 0


@pytest.mark.check
def test_background_requests_interrupt_nothing(
    open_runtime: OpenRuntime, at_inferences: Callable[[Callable[[bool], None]], None]
) -> None:
    runtime = open_runtime(prefill_chunk_tokens=2048)
    requests: list[Any] = []

    def submit_another(begun: bool) -> None:
        if len(requests) < 10:
            requests.append(submit(runtime, 2, prompt=LONG, priority=Priority.PROACTIVE))

    at_inferences(submit_another)
    with runtime.record_trace() as trace:
        submit(runtime, 2, prompt=LONG, priority=Priority.PROACTIVE).output.result(60)
        for request in requests:
            request.output.result(60)
    assert len(requests) == 10
    assert not any(kernel.interrupted for kernel in trace.kernels)


@pytest.mark.check
def test_models_of_a_group_interrupt_each_other(
    open_runtime: OpenRuntime, at_inferences: Callable[[Callable[[bool], None]], None]
) -> None:
    group = EngineGroup()
    first = open_runtime(group=group, prefill_chunk_tokens=2048)
    second = open_runtime(group=group)
    expected = submit(first, 4, prompt=LONG).output.result(60).token_ids
    running: Any = first._engine._platform.xpus[Role.DECODE]
    asked: list[Any] = []

    def ask(begun: bool) -> None:
        if not asked:
            asked.append(submit(second, 4, prompt=QUESTIONS[1]))
            until(lambda: running._interrupt._requested)

    at_inferences(ask)
    with first.record_trace() as trace:
        background = submit(first, 4, prompt=LONG, priority=Priority.PROACTIVE)
        assert background.output.result(60).token_ids == expected
    assert asked[0].output.result(60)
    assert any(kernel.interrupted for kernel in trace.kernels)
