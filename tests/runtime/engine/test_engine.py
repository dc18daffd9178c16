from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import DeviceLostError, EngineFailedError, InvalidRequestError, RuntimeClosedError
from agentrt.priority import Priority
from agentrt.runtime import EngineStatistics, LocalRuntime, SamplingParams
from agentrt.runtime.engine import engine
from agentrt.runtime.engine.answer_text import AnswerText
from agentrt.runtime.engine.engine import Engine
from agentrt.runtime.engine.request import EngineRequest
from agentrt.runtime.scheduler.sequence import SequenceState

PROMPT = list(range(300, 340))


def submit(
    runtime: LocalRuntime,
    max_tokens: int = 5,
    *,
    priority: Priority = Priority.REACTIVE,
    on_text: Callable[[str], None] | None = None,
    prompt: list[int] = PROMPT,
    deadline_s: float | None = None,
    prefix_salt: bytes | None = None,
    **params: Any,
) -> EngineRequest:
    """Submit tokens straight to the engine; nothing but ``max_tokens`` ends the answer."""
    return runtime._engine.submit(
        prompt,
        SamplingParams(**params),
        priority,
        AnswerText(runtime._tokenizer.detokenizer(), params.get("stop", ())),
        end_tokens=frozenset(),
        max_total_tokens=len(prompt) + max_tokens,
        on_text=on_text,
        deadline_s=deadline_s,
        prefix_salt=prefix_salt,
    )


def test_a_job_runs_to_its_end(runtime: LocalRuntime, before: EngineStatistics) -> None:
    pieces: list[str] = []
    prompt = PROMPT[:30]  # within one KV block, so that no profile makes two chunks of it
    job = submit(runtime, 7, on_text=pieces.append, prompt=prompt)
    completion = job.completion.result(30)
    assert (completion.stop_reason, completion.prompt_tokens) == ("length", 30)
    assert len(completion.token_ids) == 7
    assert completion.text == "".join(pieces) == runtime._tokenizer.decode(completion.token_ids)
    assert 0 <= completion.queued_s <= completion.time_to_first_token_s <= completion.total_s
    after = runtime.statistics().engine
    assert (after.finished - before.finished, after.sampled_tokens - before.sampled_tokens) == (1, 7)
    assert after.computed_tokens - before.computed_tokens == 30 + 6
    assert after.steps - before.steps == 7


def test_an_end_token_ends_the_answer_and_is_no_text(runtime: LocalRuntime) -> None:
    job = runtime._engine.submit(
        PROMPT,
        SamplingParams(logit_bias={700: 100.0}),
        Priority.REACTIVE,
        AnswerText(runtime._tokenizer.detokenizer(), ()),
        end_tokens=frozenset({700}),
        max_total_tokens=100,
    )
    completion = job.completion.result(30)
    assert (completion.text, completion.token_ids, completion.stop_reason) == ("", (700,), "stop")


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_cancel_frees_at_once(runtime: LocalRuntime, before: EngineStatistics, gate: Any, steps: int) -> None:
    kept, cancelled = submit(runtime, 40), submit(runtime, 40)
    gate.arrived()
    for _ in range(steps):
        gate.step()
    runtime._engine.cancel(cancelled)
    runtime._engine.cancel(cancelled)  # again changes nothing
    step = gate.step()
    assert [slice.sequence for slice in step] == [kept.sequence]
    assert cancelled.completion.result(30).stop_reason == "cancelled"
    assert (cancelled.sequence.state, cancelled.sequence.blocks) == (SequenceState.FINISHED, [])
    assert runtime._pool.free == runtime._pool.total - len(kept.sequence.blocks)
    gate.open()
    assert kept.completion.result(30).stop_reason == "length"
    assert runtime.statistics().engine.cancelled == before.cancelled + 1


def test_cancelling_the_last_job_leaves_an_idle_engine(runtime: LocalRuntime, gate: Any) -> None:
    job = submit(runtime, 40)
    gate.arrived()
    runtime._engine.cancel(job)
    gate.open()
    assert job.completion.result(30).stop_reason == "cancelled"
    assert submit(runtime, 2).completion.result(30).stop_reason == "length"


def test_reactive_overtakes_proactive(runtime: LocalRuntime, gate: Any) -> None:
    background = [submit(runtime, 5, priority=Priority.PROACTIVE, prompt=PROMPT * 20) for _ in range(3)]
    gate.arrived()
    user = submit(runtime, 1)
    step = gate.step()
    assert [slice.sequence for slice in step] == [user.sequence]
    gate.open()
    assert all(job.completion.result(60).stop_reason == "length" for job in [user, *background])


def test_a_background_prompt_is_interrupted_between_two_kernels_and_goes_on_there(
    open_runtime: Callable[..., LocalRuntime], hold: Any
) -> None:
    runtime = open_runtime(quantum_s=1e-6)  # as many kernels as there are
    alone = submit(runtime, 5, prompt=PROMPT * 5).completion.result(30)
    gate = hold(runtime)
    background = submit(runtime, 5, priority=Priority.PROACTIVE, prompt=PROMPT * 5)
    gate.arrived()
    user = submit(runtime, 1, prompt=PROMPT[:20])
    kernels = [gate.step()[0].sequence]
    while kernels[-1] is user.sequence:
        kernels.append(gate.step()[0].sequence)
    assert len(kernels) > 2, "all of the user's, and only then the rest of the other's"
    assert kernels[-1] is background.sequence
    gate.open()
    assert background.completion.result(30).token_ids == alone.token_ids
    statistics = runtime.statistics().engine
    assert statistics.preemptions == 1
    assert statistics.computed_tokens == 2 * (len(PROMPT) * 5 + 4) + 20, "nothing twice"


def test_health_is_decode_progress(runtime: LocalRuntime, before: EngineStatistics, gate: Any) -> None:
    assert before.seconds_since_progress == 0, "idle is healthy"
    job = submit(runtime, 3)
    gate.arrived()
    first = runtime.statistics().engine
    second = runtime.statistics().engine
    assert 0 < first.seconds_since_progress < second.seconds_since_progress, "a stuck step shows"
    assert (first.steps, first.running) == (before.steps, 1)
    gate.open()
    job.completion.result(30)


def test_a_lost_device_reaches_everyone_who_waits(
    open_runtime: Callable[[], LocalRuntime], hold: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = open_runtime()
    gate = hold(runtime)
    running, waiting = submit(runtime, 40), submit(runtime, 40, priority=Priority.PROACTIVE)
    gate.arrived()

    def broken(*arguments: object) -> None:
        raise DeviceLostError("CPU", "it was pulled out.")

    monkeypatch.setattr(gate, "run", broken)
    late = submit(runtime, 3)
    gate.open()
    for job in (running, waiting, late):
        with pytest.raises(EngineFailedError, match=r"pulled out.*open it again") as caught:
            job.completion.result(30)
        assert isinstance(caught.value.__cause__, DeviceLostError)
    with pytest.raises(EngineFailedError, match="pulled out"):
        submit(runtime)
    runtime.close()


def test_close_tells_everyone_who_waits(open_runtime: Callable[[], LocalRuntime], hold: Any) -> None:
    runtime = open_runtime()
    gate = hold(runtime)
    jobs = [submit(runtime, 40) for _ in range(3)]
    gate.arrived()
    closer = threading.Thread(target=runtime.close)
    closer.start()
    gate.open()
    closer.join(30)
    for job in jobs:
        with pytest.raises(RuntimeClosedError, match=r"LocalRuntime\.open"):
            job.completion.result(30)
    with pytest.raises(RuntimeClosedError):
        submit(runtime)
    runtime.close()


def test_a_listener_that_raises_ends_only_its_own_job(runtime: LocalRuntime) -> None:
    def raises(text: str) -> None:
        raise ValueError("no more")

    bad, good = submit(runtime, 20, on_text=raises), submit(runtime, 20)
    with pytest.raises(ValueError, match="no more"):
        bad.completion.result(30)
    assert good.completion.result(30).stop_reason == "length"


def test_an_idle_engine_gives_memory_back_once_it_rests(
    open_runtime: Callable[[], LocalRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_REST_AFTER_S", 0.01)
    runtime = open_runtime()
    rested = threading.Semaphore(0)
    reclaim = runtime._engine._platform.reclaim

    def note() -> None:
        reclaim()
        rested.release()

    monkeypatch.setattr(runtime._engine._platform, "reclaim", note)
    tokens = set()
    for _ in range(2):
        tokens.add(submit(runtime, 5).completion.result(30).token_ids)
        assert rested.acquire(timeout=30)
    assert len(tokens) == 1


def test_no_thread_is_left(open_runtime: Callable[[], LocalRuntime]) -> None:
    runtime = open_runtime()
    engine: Engine = runtime._engine
    assert engine._thread.is_alive()
    runtime.close()
    assert not engine._thread.is_alive()


def test_the_shortest_and_the_longest_prompt(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime(memory_bytes=2**20)
    most = runtime.statistics().blocks * 32
    for prompt in ([300], [300 + n % 700 for n in range(most - 1)]):
        job = submit(runtime, 1, prompt=prompt)
        assert len(job.completion.result(60).token_ids) == 1
    with pytest.raises(InvalidRequestError, match="at least one"):
        submit(runtime, prompt=[])


def test_closing_frees_the_arena(open_runtime: Callable[..., LocalRuntime]) -> None:
    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    size = 3 * 2**30  # far more than anything else that comes and goes meanwhile
    before = mapped()
    runtime = open_runtime(memory_bytes=size)
    submit(runtime, 3).completion.result(60)
    assert mapped() - before > 0.9 * size
    runtime.close()
    assert mapped() - before < 0.5 * size
