from __future__ import annotations

import os
import threading
from collections import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentrt.errors import EngineFailedError, InvalidRequestError
from agentrt.priority import Priority
from agentrt.runtime import EngineStatistics, LocalRuntime, SamplingParams
from agentrt.runtime.drafting.drafter import Drafter
from agentrt.runtime.engine import engine
from agentrt.runtime.engine.engine import note_attention
from agentrt.runtime.engine.engine_request import EngineRequest
from agentrt.runtime.heg.kernel import BatchContext
from agentrt.runtime.kv.compression.density import AttentionMass
from agentrt.runtime.request.request import Request
from agentrt.runtime.scheduler.batch import ScheduledChunk, inputs_of
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.runtime.conftest import Hold, OpenRuntime

PROMPT = list(range(300, 340))
SHORT = PROMPT[:30]
"""Within one KV block, so that it is one chunk under any profile."""


def submit(
    runtime: LocalRuntime,
    max_tokens: int = 5,
    *,
    priority: Priority = Priority.REACTIVE,
    prompt: list[int] = PROMPT,
    end_tokens: frozenset[int] = frozenset(),
    listener: Callable[[Any], None] | None = None,
    drafter: Drafter | None = None,
    drafters: abc.Sequence[Drafter] = (),
    deadline_s: float | None = None,
    prefix_salt: bytes | None = None,
    grammar_matcher: Any = None,
    app: str = "",
    tool_seconds: Mapping[str, float] | None = None,
    **params: Any,
) -> EngineRequest:
    """Submit tokens to the engine; by default nothing but ``max_tokens`` ends the answer."""
    request = Request(
        prompt_token_ids=prompt,
        sampling_params=SamplingParams(**params),
        priority=priority,
        end_tokens=end_tokens,
        max_total_tokens=len(prompt) + max_tokens,
        context_length=runtime.context_length,
        deadline_s=deadline_s,
        prefix_salt=prefix_salt,
        grammar_matcher=grammar_matcher,
        app=app,
        tool_seconds=tool_seconds or {},
    )
    return runtime._engine.submit(
        request, listener=listener, drafters=drafters or ([] if drafter is None else [drafter])
    )


def test_a_request_runs_to_its_end(runtime: LocalRuntime, before: EngineStatistics) -> None:
    pieces: list[str] = []
    request = submit(runtime, 7, listener=pieces.append, prompt=SHORT)
    output = request.output.result(30)
    assert (output.stop_reason, output.prompt_tokens) == ("length", 30)
    assert len(output.token_ids) == 7
    assert output.text == "".join(pieces) == runtime._tokenizer.decode(output.token_ids)
    assert 0 <= output.queued_s <= output.time_to_first_token_s <= output.total_s
    after = runtime.statistics().engine
    assert (after.finished - before.finished, after.sampled_tokens - before.sampled_tokens) == (1, 7)
    assert after.computed_tokens - before.computed_tokens == 30 + 6
    assert after.steps - before.steps == 7


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_cancel_frees_at_once(runtime: LocalRuntime, before: EngineStatistics, gate: Any, steps: int) -> None:
    kept, cancelled = submit(runtime, 40), submit(runtime, 40)
    gate.arrived()
    for _ in range(steps):
        gate.step()
    runtime._engine.cancel(cancelled)
    runtime._engine.cancel(cancelled)  # again changes nothing
    step = gate.step()
    assert [chunk.sequence for chunk in step] == [kept.sequence]
    assert cancelled.output.result(30).stop_reason == "cancelled"
    assert (cancelled.sequence.state, cancelled.sequence.blocks) == (SequenceState.FINISHED, [])
    assert runtime._pool.free == runtime._pool.total - len(kept.sequence.blocks)
    gate.open()
    assert kept.output.result(30).stop_reason == "length"
    assert runtime.statistics().engine.cancelled == before.cancelled + 1


def test_one_id_from_the_request_to_the_trace(runtime: LocalRuntime) -> None:
    with runtime.record_trace() as trace:
        generation = runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=3)
    assert {kernel.request_ids for kernel in trace.kernels} == {(generation.id,)}
    events = trace.to_chrome()["traceEvents"]
    assert {event["args"]["requests"][0] for event in events if event["ph"] == "X"} == {generation.id}


def test_health_is_decode_progress(runtime: LocalRuntime, before: EngineStatistics, gate: Any) -> None:
    assert before.seconds_since_progress == 0, "idle is healthy"
    request = submit(runtime, 3)
    gate.arrived()
    first = runtime.statistics().engine
    second = runtime.statistics().engine
    assert 0 < first.seconds_since_progress < second.seconds_since_progress, "a stuck kernel shows"
    assert (first.steps, first.running) == (before.steps, 1)
    gate.open()
    request.output.result(30)


def test_a_lost_device_ends_every_request(
    open_runtime: OpenRuntime, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = open_runtime()
    gate = hold(runtime)
    running, waiting = submit(runtime, 40), submit(runtime, 40, priority=Priority.PROACTIVE)
    gate.arrived()

    def broken(*arguments: object, **how: object) -> None:
        raise EngineFailedError("CPU is lost: it was pulled out.")

    monkeypatch.setattr(gate, "run", broken)
    late = submit(runtime, 3)
    gate.open()
    for request in (running, waiting, late):
        with pytest.raises(EngineFailedError, match=r"pulled out.*open it again") as caught:
            request.output.result(30)
        assert isinstance(caught.value.__cause__, EngineFailedError)
    with pytest.raises(EngineFailedError, match="pulled out"):
        submit(runtime)
    runtime.close()


def test_a_listener_that_raises_ends_only_its_own_request(runtime: LocalRuntime) -> None:
    def raises(text: str) -> None:
        raise ValueError("no more")

    bad, good = submit(runtime, 20, listener=raises), submit(runtime, 20)
    with pytest.raises(ValueError, match="no more"):
        bad.output.result(30)
    assert good.output.result(30).stop_reason == "length"


def test_an_idle_engine_reclaims_memory(open_runtime: OpenRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_RECLAIM_AFTER_S", 0.01)
    runtime = open_runtime()
    reclaimed = threading.Semaphore(0)
    reclaim = runtime._engine._platform.reclaim

    def note(idle_s: float) -> None:
        reclaim(idle_s)
        if idle_s == 0.0:
            reclaimed.release()

    monkeypatch.setattr(runtime._engine._platform, "reclaim", note)
    tokens = set()
    for _ in range(2):
        tokens.add(submit(runtime, 5).output.result(30).token_ids)
        assert reclaimed.acquire(timeout=30)
    assert len(tokens) == 1


def test_the_shortest_and_the_longest_prompt(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime(memory_bytes=2**20)
    most = runtime.statistics().blocks * 32
    for prompt in ([300], [300 + n % 700 for n in range(most - 1)]):
        request = submit(runtime, 1, prompt=prompt)
        assert len(request.output.result(60).token_ids) == 1
    with pytest.raises(InvalidRequestError, match="at least one"):
        submit(runtime, prompt=[])


def test_closing_frees_the_arena(open_runtime: OpenRuntime) -> None:
    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    size = 3 * 2**30  # far more than other allocations of the test
    before = mapped()
    runtime = open_runtime(memory_bytes=size)
    submit(runtime, 3).output.result(60)
    assert mapped() - before > 0.5 * size  # what earlier tests have left may go meanwhile
    runtime.close()
    assert mapped() - before < 0.5 * size


def batch(
    *lengths: tuple[int, int, int], drafts_alone: bool = False
) -> tuple[BatchContext, list[ScheduledChunk]]:
    """Return a batch of one chunk for each of ``lengths``: tokens computed before, in it, and drafted."""
    chunks = []
    for number, (past, length, drafted) in enumerate(lengths):
        sequence = Sequence(number, Priority.REACTIVE, list(range(past + length)))
        sequence.computed_tokens = past
        chunks.append(ScheduledChunk(sequence, length, True, tuple(range(drafted))))
    inputs = inputs_of(chunks, drafts_alone=drafts_alone)
    return BatchContext(0, inputs, inputs.shape, ()), chunks


def densities(attention: AttentionMass | None, block_tokens: int, blocks: int) -> list[float]:
    assert attention is not None
    return [each.density for each in attention.of_blocks(block_tokens, blocks)]


def test_each_sequence_gets_its_own_scores() -> None:
    context, chunks = batch((2, 2, 0), (0, 4, 0))
    layer = np.array([2, 0, 0, 0, 0, 0, 0, 4], np.float32)
    context.scores = [layer, layer]
    note_attention(context, chunks)
    first, second = (chunk.sequence.attention for chunk in chunks)
    assert densities(first, 2, 2) == [0.5, 0.0]
    assert densities(second, 2, 2) == [0.0, pytest.approx(2.0)]


def test_drafted_tokens_count_as_new_ones() -> None:
    context, chunks = batch((3, 1, 2))
    context.scores = [np.full(6, 0.5, np.float32)]
    note_attention(context, chunks)
    attention = chunks[0].sequence.attention
    assert densities(attention, 3, 1) == [pytest.approx(0.5 / 3)]


def test_a_drafted_token_that_is_a_sequence_of_its_own_has_its_own_scores() -> None:
    context, chunks = batch((1, 1, 1), (0, 1, 0), drafts_alone=True)
    assert context.inputs is not None
    assert context.inputs.past_lens == [1, 2, 0]
    assert context.inputs.subsequence_begins == [0, 1, 2, 3]
    context.scores = [np.array([0.5, 0.5, 0.2, 0.3, 0.5, 1.0], np.float32)]
    note_attention(context, chunks)
    first, second = (chunk.sequence.attention for chunk in chunks)
    assert densities(first, 1, 3) == [pytest.approx(0.35), pytest.approx(0.4), pytest.approx(0.5)]
    assert densities(second, 1, 1) == [1.0]
