from __future__ import annotations

import asyncio
import gc
import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from agentrt import errors
from agentrt.calls import TextDelta
from agentrt.priority import Priority, priority
from agentrt.runtime import EngineStatistics, Finished, Generation, LocalRuntime, LogprobsDelta, RuntimeConfig
from agentrt.runtime.request.request import Request
from tests.patience import until
from tests.runtime.conftest import Hold, OpenRuntime, open_exact

HELLO = [{"role": "user", "content": "Hello!"}]
# Special tokens have no text and would yield no event.
LONG: dict[str, Any] = {"max_tokens": 500, "logit_bias": dict.fromkeys(range(3), -100.0)}


def deltas(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def same(one: Generation, other: Generation) -> bool:
    return (one.text, one.token_ids, one.finish_reason, one.usage) == (
        other.text, other.token_ids, other.finish_reason, other.usage,
    )  # fmt: skip


async def collect(runtime: LocalRuntime, **options: Any) -> list[Any]:
    return [event async for event in runtime.stream(HELLO, **options)]


@pytest.mark.parametrize(
    "options", [{"max_tokens": 20}, {"max_tokens": 20, "temperature": 1.5, "seed": 3}, {"max_tokens": 1}]
)
def test_every_way_to_generate_gives_the_same_answer(runtime: LocalRuntime, options: dict[str, Any]) -> None:
    whole = runtime.generate(HELLO, **options)
    assert whole.usage.completion_tokens == len(whole.token_ids) <= 20
    assert same(asyncio.run(runtime.agenerate(HELLO, **options)), whole)
    for events in (list(runtime.iter_stream(HELLO, **options)), asyncio.run(collect(runtime, **options))):
        assert not any(isinstance(event, Finished) for event in events[:-1])
        assert same(events[-1].generation, whole)
        assert deltas(events) == whole.text


def test_a_seed_fixes_the_answer_whatever_it_is_batched_with(runtime: LocalRuntime) -> None:
    def ask(seed: int) -> Generation:
        return runtime.generate(HELLO, max_tokens=24, temperature=3.0, top_p=0.95, seed=seed)

    alone = [ask(seed) for seed in range(12)]
    assert len({generation.token_ids for generation in alone}) > 6
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(ask, range(12)))
    assert all(same(*pair) for pair in zip(alone, together, strict=True))


def test_stop_text_and_stop_token(runtime: LocalRuntime) -> None:
    options: dict[str, Any] = {"max_tokens": 40, "temperature": 1.5, "seed": 1, "ignore_eos": True}
    whole = runtime.generate(HELLO, **options)
    assert whole.finish_reason == "length"
    middle = whole.text[len(whole.text) // 2 :][:4]
    stopped = runtime.generate(HELLO, stop=middle, **options)
    assert (stopped.text, stopped.finish_reason) == (whole.text[: whole.text.index(middle)], "stop")
    assert deltas(list(runtime.iter_stream(HELLO, stop=["§§", middle], **options))) == stopped.text
    token = whole.token_ids[10]
    by_token = runtime.generate(HELLO, stop_token_ids=[token], **options)
    assert by_token.token_ids == whole.token_ids[: whole.token_ids.index(token) + 1]
    assert by_token.finish_reason == "stop"


def test_the_current_priority_is_the_default(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Priority] = []
    submit = runtime._engine.submit

    def spy(request: Request, **options: Any) -> Any:
        seen.append(request.priority)
        return submit(request, **options)

    monkeypatch.setattr(runtime._engine, "submit", spy)
    runtime.generate(HELLO, max_tokens=1)
    with priority(Priority.PROACTIVE):
        runtime.generate(HELLO, max_tokens=1)
        asyncio.run(runtime.agenerate(HELLO, max_tokens=1))
        runtime.generate(HELLO, max_tokens=1, priority=Priority.REACTIVE)
    proactive, reactive = Priority.PROACTIVE, Priority.REACTIVE
    assert seen == [reactive, proactive, proactive, reactive]


def test_the_event_loop_is_never_blocked(
    runtime: LocalRuntime, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rendering and tokenization run on another thread."""
    threads: list[int] = []
    for name in ("render", "encode"):
        method = getattr(runtime._tokenizer, name)

        def spy(*args: Any, method: Callable[..., Any] = method) -> Any:
            threads.append(threading.get_ident())
            return method(*args)

        monkeypatch.setattr(runtime._tokenizer, name, spy)

    async def main() -> None:
        waiting = asyncio.create_task(runtime.agenerate(HELLO, max_tokens=3))
        streaming = asyncio.create_task(collect(runtime, max_tokens=3))
        # The engine is stopped before its first kernel, and the loop runs.
        await asyncio.to_thread(gate.arrived)
        assert not waiting.done()
        assert not streaming.done()
        gate.open()
        assert (await waiting).token_ids == (await streaming)[-1].generation.token_ids

    asyncio.run(main())
    assert len(threads) == 4
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("streamed", [False, True])
def test_cancelling_the_task_frees_everything(
    runtime: LocalRuntime, before: EngineStatistics, gate: Any, streamed: bool
) -> None:
    async def main() -> None:
        task = asyncio.create_task(collect(runtime, **LONG) if streamed else runtime.agenerate(HELLO, **LONG))
        await asyncio.to_thread(gate.arrived)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gate.open()
    runtime.generate(HELLO, max_tokens=1)  # runs after the cancellation
    assert runtime.statistics().engine.sampled_tokens - before.sampled_tokens < 4


def test_closing_an_iterator_frees_everything(
    runtime: LocalRuntime, before: EngineStatistics, gate: Any
) -> None:
    async def main() -> None:
        stream = cast(AsyncGenerator[Any], runtime.stream(HELLO, **LONG))
        await anext(stream)
        await stream.aclose()

    gate.allow(8)
    stream = cast(Generator[Any], runtime.iter_stream(HELLO, **LONG))
    next(stream)
    stream.close()
    gate.allow(8)
    asyncio.run(main())
    gate.open()
    runtime.generate(HELLO, max_tokens=1)
    assert runtime.statistics().engine.cancelled == before.cancelled + 2


def test_an_abandoned_iterator_frees_everything(
    runtime: LocalRuntime, before: EngineStatistics, gate: Any
) -> None:
    gate.allow(8)
    never_started, started = runtime.iter_stream(HELLO, **LONG), runtime.iter_stream(HELLO, **LONG)
    next(started)
    del never_started, started
    gc.collect()
    gate.open()
    runtime.generate(HELLO, max_tokens=1)
    assert runtime.statistics().engine.cancelled == before.cancelled + 1


@pytest.mark.real_model
def test_a_stream_keeps_its_runtime_open() -> None:
    async def main() -> Generation:
        stream = await open_exact().start(HELLO, max_tokens=20)
        gc.collect()
        events = [event async for event in stream.events()]
        return cast(Finished, events[-1]).generation

    assert len(asyncio.run(main()).token_ids) > 1


def test_logprobs_come_with_tokens_and_before_text(runtime: LocalRuntime) -> None:
    plain = runtime.generate(HELLO, max_tokens=12)
    given = runtime.generate(HELLO, max_tokens=12, logprobs=3)
    assert plain.logprobs == ()
    assert given.token_ids == plain.token_ids
    assert [entry.token for entry in given.logprobs] == list(given.token_ids)
    for entry in given.logprobs:
        assert entry.top[0] == (entry.token, entry.logprob)  # greedy decoding takes the most likely token
        assert len(entry.top) == 3
        assert sum(math.exp(logprob) for _, logprob in entry.top) <= 1.0 + 1e-9

    events = asyncio.run(collect(runtime, max_tokens=12, logprobs=3))
    assert [entry for event in events if isinstance(event, LogprobsDelta) for entry in event.tokens] == list(
        given.logprobs
    )
    # The probabilities of tokens come before their text.
    assert isinstance(events[0], LogprobsDelta)
    assert isinstance(events[1], TextDelta)
    finished = events[-1]
    assert finished.generation.logprobs == given.logprobs


def test_close_with_outstanding_requests(open_runtime: OpenRuntime, hold: Hold) -> None:
    runtime = open_runtime()
    gate = hold(runtime)

    async def main() -> None:
        gate.allow(8)
        stream = runtime.stream(HELLO, **LONG)
        await anext(aiter(stream))
        waiting = asyncio.create_task(runtime.agenerate(HELLO, **LONG))
        closing = asyncio.create_task(asyncio.to_thread(runtime.close))
        await asyncio.to_thread(until, lambda: runtime.closed)  # before any answer is complete
        gate.open()
        await closing
        with pytest.raises(errors.RuntimeClosedError):
            await waiting
        with pytest.raises(errors.RuntimeClosedError):
            async for _ in stream:
                pass

    asyncio.run(main())
    with pytest.raises(errors.RuntimeClosedError, match=r"LocalRuntime\.open"):
        runtime.generate(HELLO)
    runtime.close()


def test_a_loop_that_ends_mid_stream_leaves_nothing_behind(
    runtime: LocalRuntime, before: EngineStatistics, gate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    held: list[Any] = []

    async def abandon() -> None:
        held.append(runtime.stream(HELLO, **LONG))
        await anext(held[-1])

    gate.allow(8)
    asyncio.run(abandon())  # closes the stream on its way out
    gate.allow(8)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(abandon())
    loop.close()  # closes nothing: the engine notices at the next piece
    gate.open()
    runtime.generate(HELLO, **LONG)
    statistics = runtime.statistics().engine
    assert statistics.finished == before.finished + 1
    assert statistics.sampled_tokens - before.sampled_tokens < 600, "the abandoned answers were cut off"
    assert not caplog.records


def test_prompt_beyond_the_context(runtime: LocalRuntime, before: EngineStatistics) -> None:
    with pytest.raises(errors.PromptTooLongError, match=r"the context of nano holds 2048") as caught:
        runtime.generate([{"role": "user", "content": "word " * 3000}])
    assert caught.value.prompt_tokens > 3000
    assert caught.value.limit_tokens == 2048
    with pytest.raises(errors.PromptTooLongError, match="has at least"):  # more is not tokenized
        runtime.generate([{"role": "user", "content": "word " * 100_000}])
    assert runtime.statistics().engine.steps == before.steps, "nothing was computed"


def test_prompt_beyond_the_arena(runtime: LocalRuntime, open_runtime: OpenRuntime) -> None:
    roomy = runtime.statistics()
    small = open_runtime(memory_bytes=2 * roomy.arena_bytes // roomy.blocks)
    with pytest.raises(errors.PromptTooLongError, match=r"the KV arena holds 64.*memory_bytes"):
        small.generate([{"role": "user", "content": "word " * 60}])
    answer = small.generate(HELLO, ignore_eos=True)
    assert answer.finish_reason == "length"
    assert answer.usage.prompt_tokens + answer.usage.completion_tokens == 64, "the arena bounds the answer"


def test_the_context_bounds_the_answer(runtime: LocalRuntime) -> None:
    messages = [{"role": "user", "content": "a " * 980}]
    answer = runtime.generate(messages, ignore_eos=True)
    assert answer.usage.prompt_tokens + answer.usage.completion_tokens == 2048
    assert answer.finish_reason == "length"


@pytest.mark.parametrize(
    ("messages", "options", "field"),
    [
        ([], {}, "messages"),
        ([{"role": "wizard", "content": "x"}], {}, "messages[0].role"),
        ([{"role": "user", "content": ""}], {}, "messages[0].content"),
        (HELLO, {"tools": [{"type": "function"}]}, "tools[0]"),
        (HELLO, {"max_tokens": -1}, "max_tokens"),
        (HELLO, {"temperature": float("nan")}, "temperature"),
        (HELLO, {"stop": 3}, "stop"),
        (HELLO, {"stop_token_ids": [2048]}, "stop_token_ids"),
        (HELLO, {"logit_bias": {2048: 1.0}}, "logit_bias"),
        (HELLO, {"priority": 3}, "priority"),
        (HELLO, {"app": 3}, "app"),
        (HELLO, {"foo": 1}, "foo"),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(
    runtime: LocalRuntime, before: EngineStatistics, messages: Any, options: dict[str, Any], field: str
) -> None:
    for ask in (
        lambda: runtime.generate(messages, **options),
        lambda: runtime.iter_stream(messages, **options),
        lambda: asyncio.run(runtime.agenerate(messages, **options)),
    ):
        with pytest.raises(errors.InvalidRequestError) as caught:
            ask()
        assert caught.value.field == field
    assert runtime.statistics().engine.steps == before.steps


def test_the_error_of_an_unknown_option_lists_the_known_ones(runtime: LocalRuntime) -> None:
    with pytest.raises(errors.InvalidRequestError, match=r"temprature.*tools.*max_tokens.*temperature"):
        runtime.generate(HELLO, temprature=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("config", [{}, {"threads": 1}, "cpu"])
def test_the_configuration_must_be_a_runtime_config(config: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"RuntimeConfig\("):
        LocalRuntime.open("nano", config)


@pytest.mark.parametrize(
    "settings",
    [{"memory_bytes": 0}, {"memory_bytes": "1"}, {"threads": 0}, {"kv_cache_precision": "i3"},
     {"max_batch_size": 0}, {"platform": "moon"}, {"memroy_bytes": 1}],
)  # fmt: skip
def test_bad_configuration(settings: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigurationError, match=next(iter(settings))):
        RuntimeConfig(**settings)
