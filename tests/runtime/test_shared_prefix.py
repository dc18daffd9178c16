"""Prefixes that apps declare public: shared with those that declare the same, and nothing behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentrt.errors import InvalidRequestError
from agentrt.runtime import Generation, LocalRuntime
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.request.processor import SharedPrefix

SYSTEM = {"role": "system", "content": "You help with notes, mail and the calendar. " * 20}
SECRET = {"role": "user", "content": "Move the meeting with Ada to Monday. " * 10}
BLOCK = 32


def ask(runtime: LocalRuntime, app: str, *messages: Any, **options: Any) -> Generation:
    return runtime.generate(messages or [SYSTEM, SECRET], app=app, max_tokens=4, **options)


def test_apps_that_declare_a_prefix_share_it_and_nothing_behind_it(
    open_runtime: Callable[..., LocalRuntime], tokenizer: Tokenizer
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


def test_tools_are_part_of_the_prefix(
    open_runtime: Callable[..., LocalRuntime], weather_tool: dict[str, Any]
) -> None:
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


def test_without_system_messages_and_tools_nothing_is_shared(
    open_runtime: Callable[..., LocalRuntime],
) -> None:
    runtime = open_runtime()
    for app in ("mail", "notes"):
        answer = ask(runtime, app, SECRET, shared_prefix=True)
        assert answer.usage.cached_tokens == 0
    with pytest.raises(InvalidRequestError, match="shared_prefix"):
        ask(runtime, "mail", shared_prefix="yes")


def test_contexts_share_it(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime()
    cached = []
    for app in ("mail", "notes"):
        service = runtime.bind(app)
        context = service.new_context(str(SYSTEM["content"]))
        answer = service.call(context, "Hello!", max_tokens=4, shared_prefix=True)
        cached.append(answer.usage.cached_tokens)
    assert cached[0] == 0
    assert cached[1] > 0
