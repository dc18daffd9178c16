"""Faults of one request or one kernel, and which requests they end."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentrt.errors import (
    DeadlineExceededError,
    EngineError,
    EngineFailedError,
    InvalidRequestError,
    LogitsError,
    PromptTooLongError,
)
from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.engine.sampler import sample_batch
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.xpu.protocol import KernelDone
from tests.hypothesis_profiles import first_of
from tests.runtime.conftest import OpenRuntime
from tests.runtime.engine.test_engine import PROMPT, submit

LONG = [300 + n % 200 for n in range(700)]


class Faulty:
    """An XPU whose next kernels fail with an error, or hang."""

    def __init__(self, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hang = self.fail = 0
        self.rebuilds = 0
        self._xpu = runtime._engine._platform.xpus[Role.DECODE]
        scheduler = runtime._engine._scheduler
        scheduler.policy = replace(scheduler.policy, hang_timeout_s=1.0)  # sooner than after 10 s
        self._run, self._rebuild = self._xpu.run, self._xpu.rebuild
        monkeypatch.setattr(self._xpu, "run", self.run)
        monkeypatch.setattr(self._xpu, "rebuild", self.rebuild)

    def run(self, kernel: Any, context: Any, timeout_s: float, *lost: Any, **how: Any) -> KernelDone | None:
        if self.hang:
            self.hang -= 1
            return None
        done = self._run(kernel, context, 60.0, *lost, **how)  # no other one hangs, however busy the machine
        if self.fail and done is not None:
            self.fail -= 1
            error = EngineFailedError("out of luck. Try again.")
            return KernelDone(context, kernel, Role.DECODE, done.started, done.ended, error)
        return done

    def rebuild(self) -> None:
        self.rebuilds += 1
        self._rebuild()


@pytest.fixture
def faulty(open_runtime: OpenRuntime, monkeypatch: pytest.MonkeyPatch) -> Any:
    def open_faulty(**settings: Any) -> tuple[LocalRuntime, Faulty]:
        runtime = open_runtime(**settings)
        return runtime, Faulty(runtime, monkeypatch)

    return open_faulty


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["hang", "fail"])
@pytest.mark.parametrize("precision", first_of(["f32", "u8"]))
def test_requests_go_on_after_a_fault_with_the_same_tokens(faulty: Any, kind: str, precision: str) -> None:
    runtime, fault = faulty(kv_cache_precision=precision)
    expected = [submit(runtime, 40, prompt=prompt).output.result(60) for prompt in (PROMPT, LONG)]
    pieces = itertools.count(1)

    def fault_again(_: object) -> None:  # on the engine thread: before the answers are complete
        if next(pieces) == 12:
            setattr(fault, kind, 1)

    setattr(fault, kind, 1)
    requests = [submit(runtime, 40, prompt=prompt, listener=fault_again) for prompt in (PROMPT, LONG)]
    results = [request.output.result(60) for request in requests]
    assert [result.token_ids for result in results] == [result.token_ids for result in expected]
    assert fault.rebuilds == runtime.statistics().engine.rebuilds == (2 if kind == "hang" else 0)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("fail", r"failed \(out of luck"), pytest.param("hang", "hung", marks=pytest.mark.check)],
)
def test_a_request_whose_kernels_keep_failing_ends(faulty: Any, kind: str, reason: str) -> None:
    runtime, fault = faulty()
    setattr(fault, kind, 3)
    message = rf"3 kernels of request gen_\w+ {reason}.*Try it again"
    with pytest.raises(EngineError, match=message) as caught:
        submit(runtime).output.result(60)
    assert isinstance(caught.value.__cause__, EngineFailedError if kind == "fail" else type(None))
    assert submit(runtime, 5).output.result(60).stop_reason == "length", "the engine still works"
    assert runtime.statistics().engine.failed == 1


@pytest.mark.check
def test_blocks_that_a_hung_kernel_may_write_to_are_not_reused(faulty: Any) -> None:
    runtime, fault = faulty(prefill_chunk_tokens=256)
    fault.hang = 1
    submit(runtime, prompt=LONG).output.result(60)
    statistics = runtime.statistics()
    assert statistics.blocks - 256 // 32 <= statistics.free_blocks < statistics.blocks
    too_long = [300] * (statistics.free_blocks * 32)
    with pytest.raises(PromptTooLongError, match="hung kernels"):
        submit(runtime, prompt=too_long).output.result(60)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_numbers_end_only_their_own_request(
    runtime: LocalRuntime, gate: Any, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    bad, good = submit(runtime, 20, temperature=temperature), submit(runtime, 20, temperature=temperature)
    gate.arrived()

    def poisoned(samplers: list[Any], logits: Any) -> list[int | Exception]:
        rows = [np.nan if sampler is bad.sampler else 0.0 for sampler in samplers]
        return sample_batch(samplers, logits + np.array(rows, np.float32)[:, None])

    monkeypatch.setattr("agentrt.runtime.engine.output_processor.sample_batch", poisoned)
    gate.open()
    with pytest.raises(LogitsError, match="NaN or an infinity"):
        bad.output.result(30)
    assert good.output.result(30).stop_reason == "length"


def test_a_grammar_that_gave_up_becomes_the_error_of_its_request(runtime: LocalRuntime) -> None:
    grammar_matcher = SimpleNamespace(active=False, error="too many items", accept_token=lambda token: None)
    with pytest.raises(InvalidRequestError, match=r"too many items.*Use a simpler schema") as caught:
        submit(runtime, 5, grammar_matcher=grammar_matcher).output.result(30)
    assert caught.value.field == "response_format"


def test_a_deadline_ends_running_and_waiting_requests(
    runtime: LocalRuntime, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = submit(runtime, 1000, deadline_s=1000.0)
    waiting = submit(runtime, 5, priority=Priority.PROACTIVE, deadline_s=500.0)
    gate.arrived()
    kept = submit(runtime, 5)
    platform = runtime._engine._platform
    now = platform.now
    monkeypatch.setattr(platform, "now", lambda: now() + 1000.0)
    gate.open()
    for request in (running, waiting):
        with pytest.raises(DeadlineExceededError, match="Allow more time") as caught:
            request.output.result(30)
        assert isinstance(caught.value, TimeoutError)
    assert kept.output.result(30).stop_reason == "length"
