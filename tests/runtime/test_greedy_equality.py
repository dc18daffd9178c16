"""Greedy tokens do not depend on what runs the model, nor on what runs beside it.

That is so for these prompts, not for every conceivable one: the logits of a token that is computed alone in
one run and in a chunk in the other differ in their last bits, and by as much as the quantisation of
activations where these are quantised (``tests/runtime/xpu/test_cut_equality.py``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import openvino as ov
import openvino_genai
import pytest

from agentrt.priority import Priority
from agentrt.priority import priority as priority_of
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.scheduler.policy import POLICIES
from tests.hypothesis_profiles import first_of
from tests.runtime.conftest import OpenRuntime, open_exact

MAX_TOKENS = 32
WORDS = "What is the weather in Oslo tomorrow find my notes about lasagne read mail from Ana 17:30"

Request: TypeAlias = tuple[list[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def requests(weather_tool: dict[str, Any]) -> list[Request]:
    """50 prompts of 25 to about 700 tokens, with and without tools."""
    rng = random.Random(0)
    made = []
    for index in range(50):
        content = " ".join(rng.choices(WORDS.split(), k=rng.choice([1, 5, 20, 60, 150])))
        options = {"tools": [weather_tool]} if index % 2 else {}
        made.append(([{"role": "user", "content": content}], options))
    return made


def tokens(runtime: LocalRuntime, request: Request) -> tuple[int, ...]:
    messages, options = request
    return runtime.generate(messages, max_tokens=MAX_TOKENS, **options).token_ids


@pytest.fixture(scope="module")
def runtime() -> Iterator[LocalRuntime]:
    """A runtime without grammars, so that calls may be invalid as the model writes them."""
    with open_exact(constrain_tool_calls=False) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def alone(nano_directory: ModelDirectory, requests: list[Request]) -> list[tuple[int, ...]]:
    """The tokens of each request alone, from openvino_genai.LLMPipeline."""
    pipeline = openvino_genai.LLMPipeline(
        str(nano_directory.path),
        "CPU",
        INFERENCE_PRECISION_HINT="f32",
        KV_CACHE_PRECISION="f32",
        INFERENCE_NUM_THREADS=1,
    )
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = MAX_TOKENS
    config.do_sample = False
    config.set_eos_token_id(2)
    tokenizer = pipeline.get_tokenizer()
    answers = []
    for messages, options in requests:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tools=options.get("tools"))
        ids = tokenizer.encode(text, add_special_tokens=False).input_ids
        result = pipeline.generate(ov.Tensor(np.array(ids.data)), config)
        answers.append(tuple(result.tokens[0]))
    return answers


def test_equal_to_openvino_genai(
    runtime: LocalRuntime, requests: list[Request], alone: list[tuple[int, ...]]
) -> None:
    assert [tokens(runtime, request) for request in requests] == alone


@pytest.mark.parametrize("prefill_chunk_tokens", first_of([64, 32, 2048]))
def test_batched_and_chunked(
    open_runtime: OpenRuntime,
    requests: list[Request],
    alone: list[tuple[int, ...]],
    prefill_chunk_tokens: int,
) -> None:
    runtime = open_runtime(
        prefill_chunk_tokens=prefill_chunk_tokens, max_batch_size=8, constrain_tool_calls=False
    )
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(lambda request: tokens(runtime, request), requests)) == alone


def test_with_cancellations_all_around(
    runtime: LocalRuntime, requests: list[Request], alone: list[tuple[int, ...]]
) -> None:
    def cancelled(request: Request) -> None:
        messages, options = request
        stream = runtime.iter_stream(messages, max_tokens=MAX_TOKENS, **options)
        next(iter(stream))
        stream.close()  # type: ignore[attr-defined]

    with ThreadPoolExecutor(12) as pool:
        kept = []
        for request in requests:
            pool.submit(cancelled, request)
            kept.append(pool.submit(tokens, runtime, request))
        assert [future.result() for future in kept] == alone


@pytest.mark.matrix
@pytest.mark.parametrize("apps", [1, 3])
@pytest.mark.parametrize("precision", first_of(["f32", "u8"]))
def test_with_preemptions(
    open_runtime: OpenRuntime, precision: str, apps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a quantised KV cache: recomputation writes the same keys and values."""
    monkeypatch.setitem(POLICIES, "agent-xpu", replace(POLICIES["agent-xpu"], turn_tokens=32))
    roomy = open_runtime(kv_cache_precision=precision)
    block_bytes = roomy.statistics().arena_bytes // roomy.statistics().blocks
    prompts = [[{"role": "user", "content": f"{'note ' * (10 * n)}{n}"}] for n in range(1, 9)]
    expected = [roomy.generate(prompt, max_tokens=64, ignore_eos=True).token_ids for prompt in prompts]
    tight = open_runtime(kv_cache_precision=precision, memory_bytes=12 * block_bytes)

    def run(index: int) -> tuple[int, ...]:
        priority = Priority.REACTIVE if index % 3 == 0 else Priority.PROACTIVE
        options: dict[str, Any] = {"app": f"app {index % apps}", "max_tokens": 64, "ignore_eos": True}
        return tight.generate(prompts[index], priority=priority, **options).token_ids

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(8))) == expected
    assert tight.statistics().engine.evictions > 0


@pytest.mark.matrix
@pytest.mark.parametrize("platform", ["cpu", "emulated"])
@pytest.mark.parametrize("policy", first_of(POLICIES))
def test_under_every_policy_and_platform(
    open_runtime: OpenRuntime,
    requests: list[Request],
    alone: list[tuple[int, ...]],
    policy: str,
    platform: str,
) -> None:
    """With many kernels per batch, so that policies with priorities preempt all the time."""
    runtime = open_runtime(
        policy=policy, platform=platform, quantum_s=1e-6, promote_after_s=0.2, constrain_tool_calls=False
    )

    def run(index: int) -> tuple[int, ...]:
        priority = Priority.REACTIVE if index % 4 == 0 else Priority.PROACTIVE
        with priority_of(priority):
            return tokens(runtime, requests[index])

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, range(16))) == alone[:16]
    statistics = runtime.statistics().engine
    assert statistics.kernels >= 2 * statistics.steps
