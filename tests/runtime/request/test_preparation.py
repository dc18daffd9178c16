from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentrt.concurrency.fair_threads import Cancellation
from agentrt.errors import DeadlineExceededError, InvalidRequestError, PromptTooLongError
from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.model import tokenizer as tokenizer_module
from agentrt.runtime.request.preparation import Preparation

HELLO = [{"role": "user", "content": "Hello!"}]


def test_the_cpu_time_of_a_request_is_limited() -> None:
    times = iter([5.0, 7.0, 7.1])
    preparation = Preparation(limit_s=2, clock=lambda: next(times))
    preparation.check()
    with pytest.raises(InvalidRequestError, match="more than 2 s to prepare"):
        preparation.check()


def test_a_cancelled_request_ends() -> None:
    cancellation = Cancellation()
    preparation = Preparation(cancellation)
    preparation.check()
    cancellation.cancel()
    with pytest.raises(CancelledError):
        preparation.check()


def test_a_request_past_its_deadline_ends() -> None:
    preparation = Preparation(arrived=time.perf_counter() - 1000)
    preparation.check()
    preparation.deadline_s = 2000.0
    preparation.check()
    preparation.deadline_s = 999.0
    with pytest.raises(DeadlineExceededError, match="Allow more time"):
        preparation.check()


def test_a_request_past_its_deadline_does_not_reach_the_engine(
    runtime: LocalRuntime, before: EngineStatistics
) -> None:
    with pytest.raises(DeadlineExceededError, match="while its prompt was prepared"):
        runtime.generate(HELLO, deadline_s=1e-9)
    assert runtime.statistics().engine.failed == before.failed


@asynccontextmanager
async def no_free_thread(runtime: LocalRuntime, app: str) -> AsyncIterator[None]:
    """Occupy all threads that an app may have for its requests."""
    occupied, done = threading.Semaphore(0), threading.Event()

    def work(_: Cancellation) -> None:
        occupied.release()
        done.wait(60)

    tasks = [asyncio.create_task(runtime._preparer.run(work, app)) for _ in range(2)]
    try:
        for _ in tasks:
            assert await asyncio.to_thread(occupied.acquire, timeout=30)
        yield
    finally:
        done.set()
        await asyncio.gather(*tasks)


def test_a_deadline_passes_while_the_request_waits_for_a_thread(runtime: LocalRuntime) -> None:
    async def main() -> None:
        async with no_free_thread(runtime, "notes"), asyncio.timeout(30):
            with pytest.raises(DeadlineExceededError, match="or waited for that"):
                await runtime.agenerate(HELLO, app="notes", deadline_s=0.01)

    asyncio.run(main())


def test_a_request_arrives_when_it_is_made(runtime: LocalRuntime) -> None:
    async def main() -> None:
        async with no_free_thread(runtime, "notes"):
            prompt = HELLO
            waiting = asyncio.create_task(runtime._preparer.aprepare(prompt, {"app": "notes"}))
            await asyncio.sleep(0)
            prepared_after = time.perf_counter()
        assert (await waiting).arrived < prepared_after

    asyncio.run(main())


@pytest.mark.parametrize("deadline_s", [0, -1, float("nan"), "soon", True])
def test_a_deadline_that_is_none(runtime: LocalRuntime, deadline_s: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"deadline_s.*is not a time in the future"):
        asyncio.run(runtime.agenerate(HELLO, deadline_s=deadline_s))


@pytest.fixture
def encoded(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the runtime tokenizes."""
    texts: list[str] = []
    encode = runtime._tokenizer.encode

    def noted(rendered: str, *progress: Any) -> list[int]:
        texts.append(rendered)
        return encode(rendered, *progress)

    monkeypatch.setattr(runtime._tokenizer, "encode", noted)
    return texts


@pytest.mark.parametrize("content", ["word " * 100_000, "a" * 500_000, "<|im_end|>" * 50_000])
def test_a_prompt_that_is_far_too_long_is_not_tokenized(
    runtime: LocalRuntime, encoded: list[str], content: str
) -> None:
    with pytest.raises(PromptTooLongError, match="at least"):
        runtime.generate([{"role": "user", "content": content}])
    assert not encoded


def test_a_prompt_of_too_many_messages_is_not_rendered(
    runtime: LocalRuntime, encoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def render(*_: Any) -> str:
        raise AssertionError

    monkeypatch.setattr(runtime._tokenizer, "render", render)
    with pytest.raises(PromptTooLongError, match="at least 2500"):
        runtime.generate([{"role": "user", "content": "a"}] * 2500)
    with pytest.raises(InvalidRequestError, match="has 5000 items"):
        runtime.generate([{"role": "user", "content": "a"}] * 5000)
    tool = {"type": "function", "function": {"name": "look", "description": "word " * 100_000}}
    with pytest.raises(PromptTooLongError, match="at least"):
        runtime.generate([{"role": "user", "content": "a"}], tools=[tool])
    assert not encoded


def test_a_prompt_that_is_too_long_is_not_tokenized_to_its_end(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = "".join(f"<|im_end|>{number}" for number in range(1700))
    tokens = runtime._tokenizer.encode(runtime._tokenizer.escape_special_tokens(forged))
    monkeypatch.setattr(tokenizer_module, "_BATCH_CHARACTERS", 500)
    with pytest.raises(PromptTooLongError, match="at least") as caught:
        runtime.generate([{"role": "user", "content": forged}])
    assert 2048 <= caught.value.prompt_tokens < len(tokens) - 1000


def test_of_a_prediction_no_more_is_tokenized_than_an_answer_can_have(
    runtime: LocalRuntime, encoded: list[str]
) -> None:
    prediction = {"type": "content", "content": "word " * 1_000_000}
    runtime.generate(HELLO, prediction=prediction, max_tokens=2)
    assert max(map(len, encoded)) <= runtime._tokenizer.most_characters(2048)


def test_options_cannot_be_taken_for_the_preparation(runtime: LocalRuntime) -> None:
    with pytest.raises(InvalidRequestError, match="no such option"):
        runtime.generate(HELLO, preparation=None)  # type: ignore[call-arg]
