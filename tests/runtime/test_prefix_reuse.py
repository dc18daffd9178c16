"""The prefix cache: later turns of an app reuse its KV blocks, and apps share what they declare public."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentrt.errors import InvalidRequestError
from agentrt.priority import Priority
from agentrt.runtime import Generation, LocalRuntime
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.request.processor import SharedPrefix
from tests.hypothesis_profiles import first_of
from tests.patience import until
from tests.runtime.conftest import OpenRuntime
from tests.runtime.engine.test_engine import submit

BLOCK = 32
SYSTEM = {"role": "system", "content": "You help with notes, mail and the calendar. " * 12}


def open_with(open_runtime: OpenRuntime, blocks: int) -> LocalRuntime:
    roomy = open_runtime().statistics()
    return open_runtime(memory_bytes=blocks * roomy.arena_bytes // roomy.blocks)


def conversation(runtime: LocalRuntime, **options: Any) -> list[Any]:
    """Return three turns of one agent, each with the whole conversation so far as its prompt."""
    messages: list[dict[str, Any]] = [SYSTEM]
    made = []
    for question in ("What is the weather in Oslo?", "And in Bergen?", "Find my notes about lasagne."):
        messages.append({"role": "user", "content": question})
        made.append(runtime.generate(messages, max_tokens=40, **options))
        messages.append({"role": "assistant", "content": made[-1].text})
    return made


@pytest.mark.parametrize("precision", first_of(["f32", "u8"]))
def test_the_next_turn_begins_where_the_last_one_ended(open_runtime: OpenRuntime, precision: str) -> None:
    first, second, third = conversation(open_runtime(kv_cache_precision=precision))
    assert first.usage.cached_tokens == 0
    for earlier, later in ((first, second), (second, third)):
        prompt, answer = earlier.usage.prompt_tokens, earlier.usage.completion_tokens
        # Quantised keys of an answer differ from those of a prompt, so that only the prompt is reused.
        known = prompt + answer - 2 if precision == "f32" else prompt
        assert known - 2 * BLOCK < later.usage.cached_tokens <= known
        assert later.usage.cached_tokens % BLOCK == 0


@pytest.mark.parametrize("precision", first_of(["f32", "u8"]))
def test_the_same_tokens_with_and_without(open_runtime: OpenRuntime, precision: str) -> None:
    runtime = open_runtime(kv_cache_precision=precision)
    plain = conversation(open_runtime(kv_cache_precision=precision, policy="preempt-restart"))
    assert not any(generation.usage.cached_tokens for generation in plain)
    for _ in range(2):
        again = conversation(runtime)
        assert [generation.token_ids for generation in again] == [
            generation.token_ids for generation in plain
        ]
    assert all(generation.usage.cached_tokens for generation in again)


def test_concurrent_requests_share_complete_blocks(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime()
    messages = [SYSTEM, {"role": "user", "content": "Hello!"}]
    alone = runtime.generate(messages, max_tokens=20)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: runtime.generate(messages, max_tokens=20), range(8)))
    assert {generation.token_ids for generation in together} == {alone.token_ids}
    assert all(g.usage.cached_tokens == alone.usage.prompt_tokens // BLOCK * BLOCK for g in together)
    assert runtime.statistics().engine.cached_tokens == sum(g.usage.cached_tokens for g in together)


def test_cached_blocks_are_evicted_when_blocks_are_needed(open_runtime: OpenRuntime) -> None:
    runtime = open_with(open_runtime, blocks=12)
    blocks = runtime.statistics().blocks
    first = submit(runtime, 4, prompt=list(range(300, 300 + 5 * BLOCK)), prefix_salt=b"salt")
    first.output.result(30)
    assert runtime.statistics().cached_blocks == 5
    filling = [400 + n % 900 for n in range((blocks - 1) * BLOCK)]
    assert submit(runtime, 4, prompt=filling, prefix_salt=b"salt").output.result(30).cached_tokens == 0
    again = submit(runtime, 4, prompt=first.sequence.tokens[: 5 * BLOCK], prefix_salt=b"salt")
    assert again.output.result(30).cached_tokens == 0


@pytest.mark.check
def test_blocks_held_for_the_next_turn_survive_background_load(open_runtime: OpenRuntime) -> None:
    runtime = open_with(open_runtime, blocks=12)
    prompt = list(range(300, 300 + 5 * BLOCK))
    first = submit(runtime, 4, prompt=prompt, prefix_salt=b"salt")
    first.output.result(30)
    runtime._engine.expect_return(first, ["get_weather"])
    room = runtime.statistics().blocks - 6
    background = [300 + n % 900 for n in range(room * BLOCK)]
    for _ in range(3):  # together they need the whole arena
        request = submit(runtime, 4, prompt=background, priority=Priority.PROACTIVE, prefix_salt=b"other")
        request.output.result(30)
        background = [token + 1 for token in background]
    second = submit(runtime, 4, prompt=first.sequence.tokens + [7] * 10, prefix_salt=b"salt")
    assert second.output.result(30).cached_tokens == 5 * BLOCK
    # Reactive requests may evict them.
    runtime._engine.expect_return(first, ["get_weather"])
    filling = [300 + n % 800 for n in range((room + 5) * BLOCK)]
    assert submit(runtime, 4, prompt=filling, prefix_salt=b"x").output.result(30).stop_reason == "length"


@pytest.mark.parametrize(("calls", "kept"), [({"get_weather"}, True), (None, False)])
def test_a_turn_whose_tool_runs_computes_only_its_new_tokens(
    open_runtime: OpenRuntime, calls: set[str] | None, kept: bool
) -> None:
    runtime = open_with(open_runtime, blocks=24)
    prompt = list(range(300, 300 + 5 * BLOCK))
    waits = submit(
        runtime, 4, prompt=prompt, prefix_salt=b"salt", app="a", tool_seconds={"get_weather": 30.0}
    )
    waits.output.result(30)
    if calls is not None:  # else LRU
        runtime._engine.expect_return(waits, calls)
    for beginning in range(400, 406):  # more than the arena holds
        other = [beginning + n % 900 for n in range(5 * BLOCK)]
        submit(runtime, 4, prompt=other, prefix_salt=b"other", app="b").output.result(30)
    back = submit(runtime, 4, prompt=waits.sequence.tokens + [7] * 10, prefix_salt=b"salt", app="a")
    assert back.output.result(30).cached_tokens == (5 * BLOCK if kept else 0)


def test_the_pause_of_a_tool_is_learned(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime()
    messages: list[Any] = [SYSTEM, {"role": "user", "content": "What is the weather in Oslo?"}]
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": city}}
    options: Any = {"app": "agent", "tools": [tool], "max_tokens": 60}
    called = runtime.generate(messages, tool_choice="required", tool_seconds={"get_weather": 9}, **options)
    (call,) = called.tool_calls
    manager = runtime._engine._scheduler.block_manager
    until(lambda: manager.pool.eviction.returns)
    (expected,) = manager.pool.eviction.returns
    assert 8 < expected.at - time.perf_counter() <= 9
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    made = {"id": "call_1", "type": "function", "function": function}
    messages.append({"role": "assistant", "content": called.text, "tool_calls": [made]})
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": "Rain. " * 30})
    again = runtime.generate(messages, **options)
    assert again.usage.cached_tokens >= called.usage.prompt_tokens - 2 * BLOCK
    assert manager.pool.eviction.find(expected.key) is None
    (pauses,) = manager.pauses._pauses.values()
    assert len(pauses) == 1
    assert pauses[0] < 9


def test_a_turn_held_for_its_tools_leaves_the_answers_of_others_reusable(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime(kv_cache_precision="f32")
    held = submit(runtime, 4, prompt=list(range(300, 300 + 2 * BLOCK)), prefix_salt=b"other")
    held.output.result(30)
    runtime._engine.expect_return(held, ["get_weather"])
    prompt = list(range(400, 400 + BLOCK + 7))  # its last block is completed by the answer
    first = submit(runtime, 3 * BLOCK, prompt=prompt, prefix_salt=b"salt")
    first.output.result(30)
    second = submit(runtime, 4, prompt=first.sequence.tokens, prefix_salt=b"salt")
    assert second.output.result(30).cached_tokens == 4 * BLOCK


SECRET = {"role": "user", "content": "Move the meeting with Ada to Monday. " * 10}


def ask(runtime: LocalRuntime, app: str, *messages: Any, **options: Any) -> Generation:
    return runtime.generate(messages or [SYSTEM, SECRET], app=app, max_tokens=4, **options)


def test_apps_that_declare_a_prefix_share_it_and_nothing_behind_it(
    open_runtime: OpenRuntime, tokenizer: Tokenizer
) -> None:
    runtime = open_runtime()
    plain = ask(runtime, "plain")
    first = ask(runtime, "mail", shared_prefix=True)
    assert first.usage.cached_tokens == 0  # not from an app that has declared nothing
    second = ask(runtime, "notes", shared_prefix=True)
    public = len(tokenizer.encode(tokenizer.render([SYSTEM, SECRET], None))) - len(
        tokenizer.encode(SECRET["content"])
    )
    assert public - 2 * BLOCK < second.usage.cached_tokens <= public  # the user has said the same, too
    again = ask(runtime, "notes", shared_prefix=True)
    assert again.usage.cached_tokens > second.usage.cached_tokens  # its own, beyond the prefix
    assert ask(runtime, "third").usage.cached_tokens == 0
    assert {each.token_ids for each in (first, second, again)} == {plain.token_ids}


def test_tools_are_part_of_the_prefix(open_runtime: OpenRuntime, weather_tool: dict[str, Any]) -> None:
    runtime = open_runtime()
    tools = [weather_tool]
    question = {"role": "user", "content": "What is the weather in Ljubljana?"}
    options: Any = {"tools": tools, "shared_prefix": True}
    first = ask(runtime, "mail", question, **options)
    assert ask(runtime, "notes", question, **options).usage.cached_tokens >= BLOCK
    other = {"role": "user", "content": "What is the time?"}
    assert ask(runtime, "third", other, **options).usage.cached_tokens >= BLOCK
    assert ask(runtime, "fourth", question, shared_prefix=True).usage.cached_tokens == 0
    assert first.usage.cached_tokens == 0


@pytest.mark.parametrize("text", ["0", "x", "x and more", "Hello!"])
def test_what_the_user_says_is_never_part_of_it(tokenizer: Tokenizer, text: str) -> None:
    messages = [SYSTEM, {"role": "user", "content": text}]
    prompt = tokenizer.encode(tokenizer.render(messages, None))
    count = SharedPrefix(tokenizer).count(prompt, messages, None)
    shared = tokenizer.decode(prompt[:count])
    assert SYSTEM["content"] in shared
    assert not shared.endswith(text)
    assert tokenizer.decode(prompt[count:]).startswith(text)


def test_without_system_messages_and_tools_nothing_is_shared(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime()
    for app in ("mail", "notes"):
        answer = ask(runtime, app, SECRET, shared_prefix=True)
        assert answer.usage.cached_tokens == 0
    with pytest.raises(InvalidRequestError, match="shared_prefix"):
        ask(runtime, "mail", shared_prefix="yes")


def test_contexts_share_it(open_runtime: OpenRuntime) -> None:
    runtime = open_runtime()
    cached = []
    for app in ("mail", "notes"):
        service = runtime.bind(app)
        context = service.new_context(str(SYSTEM["content"]))
        answer = service.call(context, "Hello!", max_tokens=4, shared_prefix=True)
        cached.append(answer.usage.cached_tokens)
    assert cached[0] == 0
    assert cached[1] > 0
