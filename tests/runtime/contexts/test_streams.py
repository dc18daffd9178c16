"""Conversations that are longer than a context: they go on, and their texts stay complete (LLMS §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import InvalidRequestError, PromptTooLongError
from agentrt.runtime import (
    Context,
    ContextService,
    Finished,
    Generation,
    LocalRuntime,
    PromptTruncated,
    RawPrompt,
)

SYSTEM = "You help with notes, mail and the calendar."
OPTIONS: Any = {"max_tokens": 8, "ignore_eos": True}
TOKENS = 480


def question(number: int) -> str:
    return f"What do I have to know about the {number}th day of the year?"


def talk(service: ContextService, context: Context, turns: int) -> list[Generation]:
    return [service.call(context, question(number), **OPTIONS) for number in range(turns)]


def computed(generation: Generation) -> int:
    return generation.usage.prompt_tokens - generation.usage.cached_tokens


def test_a_context_goes_on_as_long_as_it_likes(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime(max_context_tokens=TOKENS)
    service = runtime.bind("stream")
    context = service.new_context(SYSTEM)
    answers = talk(service, context, 60)
    text = service.get(context)
    assert len(text.messages) == 121
    assert [each["content"] for each in text.messages[1::2]] == [question(number) for number in range(60)]
    left_out = [each.usage.truncated_messages for each in answers]
    assert left_out[0] == 0
    assert left_out == sorted(left_out)
    assert left_out[-1] > 90
    assert all(each.usage.prompt_tokens <= TOKENS - 8 and len(each.token_ids) == 8 for each in answers)
    messages = text.messages[:-1]
    kept = [messages[0], *messages[1 + left_out[-1] :]]
    assert runtime.generate(kept, **OPTIONS).token_ids == answers[-1].token_ids
    assert text.tokens == pytest.approx(runtime.count_prompt_tokens(text.messages), rel=0.2)
    # One prompt in several is computed again, half of it: the others find all but what is new.
    new = max(map(computed, answers[1:5]))
    again = [each for each in answers[5:] if computed(each) > new + 16]
    assert 2 <= len(again) == len(set(left_out)) - 1 <= len(answers) / 4
    assert sum(map(computed, answers)) < 2.5 * new * len(answers)


def test_events_say_first_what_was_left_out(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime(max_context_tokens=TOKENS)
    service = runtime.bind("stream")
    context = service.new_context(SYSTEM)
    talk(service, context, 20)

    async def streamed() -> list[Any]:
        return [event async for event in service.stream(context, question(21), **OPTIONS)]

    for events in (list(service.iter_stream(context, question(20), **OPTIONS)), asyncio.run(streamed())):
        first, *others, last = events
        assert isinstance(first, PromptTruncated)
        assert isinstance(last, Finished)
        assert not any(isinstance(each, PromptTruncated) for each in others)
        usage = last.generation.usage
        assert (usage.truncated_messages, usage.truncated_tokens) == (first.messages, first.tokens)
        assert first.messages > 0
        assert first.tokens > 10 * first.messages


def test_it_is_refused_where_that_is_wanted(open_runtime: Callable[..., LocalRuntime]) -> None:
    service = open_runtime(max_context_tokens=TOKENS).bind("stream")
    context = service.new_context(SYSTEM)
    talk(service, context, 20)
    with pytest.raises(PromptTooLongError, match=r"begin a new context with what still matters"):
        service.call(context, "Hello!", truncation="disabled", **OPTIONS)
    with pytest.raises(PromptTooLongError, match="a context holds 480"):
        service.call(context, "word " * 600, **OPTIONS)
    with pytest.raises(InvalidRequestError, match="'auto' or 'disabled'") as caught:
        service.call(context, "Hello!", truncation="middle", **OPTIONS)  # type: ignore[arg-type]
    assert caught.value.field == "truncation"
    assert len(service.get(context).turns) == 20


def test_after_a_restart_it_goes_on_where_it_was(
    open_runtime: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    runtime = open_runtime(max_context_tokens=TOKENS, context_folder=tmp_path)
    context = runtime.bind("stream").new_context(SYSTEM)
    before = talk(runtime.bind("stream"), context, 20)[-1]
    runtime.close()
    service = open_runtime(max_context_tokens=TOKENS, context_folder=tmp_path).bind("stream")
    after = service.call(context, question(20), **OPTIONS)
    assert after.usage.truncated_messages == before.usage.truncated_messages > 0
    assert after.usage.cached_tokens > 64
    assert len(service.get(context).turns) == 21


def test_conversations_of_other_programs_are_cut_where_they_say_so(runtime: LocalRuntime) -> None:
    turns = ({"role": "user", "content": "word " * 50}, {"role": "assistant", "content": "Yes."})
    messages: Any = [{"role": "system", "content": SYSTEM}, *(turns * 40), turns[0]]
    for truncation in ("disabled", None):
        with pytest.raises(PromptTooLongError, match="the context of nano"):
            runtime.generate(messages, truncation=truncation, **OPTIONS)  # type: ignore[arg-type]
    answer = runtime.generate(messages, truncation="auto", **OPTIONS)
    kept = [messages[0], *messages[1 + answer.usage.truncated_messages :]]
    assert answer.token_ids == runtime.generate(kept, **OPTIONS).token_ids
    assert runtime.context_length / 2 < answer.usage.prompt_tokens <= runtime.context_length - 8
    longer = runtime.generate(messages, truncation="auto", max_tokens=2000)
    assert longer.usage.prompt_tokens <= runtime.context_length * 3 / 4
    whole = runtime.generate(messages[-3:], truncation="auto", **OPTIONS)
    assert whole.usage.truncated_messages == 0
    with pytest.raises(InvalidRequestError, match="a raw prompt has no messages"):
        runtime.generate(RawPrompt("word"), truncation="auto", **OPTIONS)
