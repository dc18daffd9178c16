"""The contexts of an app on the real runtime, called in every way (LLMS, Table 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from typing import Any

import pytest

from agentrt.errors import (
    ContextBusyError,
    ContextNotFoundError,
    ContextQuotaError,
    InvalidRequestError,
    PromptTooLongError,
)
from agentrt.runtime import Context, ContextKind, ContextService, Finished, Generation, LocalRuntime
from tests.runtime.conftest import Gate

SYSTEM = "You help with notes, mail and the calendar."
HELLO = {"role": "user", "content": "Hello!"}
LONG: Any = {"max_tokens": 400, "ignore_eos": True}


@pytest.fixture
def service(runtime: LocalRuntime) -> Any:
    """The contexts of an app, all of which are deleted after the test."""
    service = runtime.bind("contexts")
    yield service
    for context in service.contexts():
        service.delete(context)


def iterated(service: ContextService, context: Context, prompt: Any, **options: Any) -> Generation:
    *_, last = service.iter_stream(context, prompt, **options)
    assert isinstance(last, Finished)
    return last.generation


def awaited(service: ContextService, context: Context, prompt: Any, **options: Any) -> Generation:
    return asyncio.run(service.acall(context, prompt, **options))


def streamed(service: ContextService, context: Context, prompt: Any, **options: Any) -> Generation:
    async def run() -> Generation:
        events = [event async for event in service.stream(context, prompt, **options)]
        assert isinstance(events[-1], Finished)
        return events[-1].generation

    return asyncio.run(run())


CALLS = [ContextService.call, awaited, iterated, streamed]


@pytest.mark.parametrize("call", CALLS)
def test_a_context_is_the_conversation_of_its_calls(
    call: Callable[..., Generation], service: ContextService, runtime: LocalRuntime
) -> None:
    context = service.new_context(SYSTEM)
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for question in ("Hello!", "What is the weather in Oslo?"):
        messages.append({"role": "user", "content": question})
        expected = runtime.generate(messages, max_tokens=30, app="stateless")
        answer = call(service, context, question, max_tokens=30)
        assert answer.token_ids == expected.token_ids
        messages.append({"role": "assistant", "content": expected.text})
    found = service.get(context)
    assert list(found.messages) == messages
    assert found.tokens == expected.usage.prompt_tokens + expected.usage.completion_tokens
    assert answer.usage.cached_tokens > 0
    assert not found.running


@pytest.mark.parametrize("call", [ContextService.call, streamed])
def test_a_tool_loop(
    call: Callable[..., Generation],
    service: ContextService,
    runtime: LocalRuntime,
    weather_tool: dict[str, Any],
) -> None:
    options = {"tools": [weather_tool], "max_tokens": 60}
    context = service.new_context()
    question = "What is the weather in Ljubljana?"
    answer = call(service, context, question, **options)
    (made,) = answer.tool_calls
    (stored,) = service.get(context).messages[-1]["tool_calls"]
    assert stored["id"] == made.id
    output = {"role": "tool", "tool_call_id": made.id, "content": '{"temperature_c": 12}'}
    final = call(service, context, output, **options)
    assert "12" in final.text
    messages = [{"role": "user", "content": question}, *service.get(context).messages[1:3]]
    assert messages[-1] == output
    assert runtime.generate(messages, **options).token_ids == final.token_ids


def output(id: str | None, content: str = "12 C") -> dict[str, Any]:
    return {"role": "tool", "content": content} | ({} if id is None else {"tool_call_id": id})


def calling(*ids: str | None) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": "{}"}
    calls = [{"type": "function", "function": function} | ({} if id is None else {"id": id}) for id in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


@pytest.mark.parametrize("call", CALLS)
def test_an_output_of_a_call_that_was_not_made_is_refused(
    call: Callable[..., Generation], service: ContextService
) -> None:
    context = service.new_context(SYSTEM)
    service.call(context, [HELLO, calling("a"), output("a")], max_tokens=2)
    before = service.get(context).messages
    prompts: list[tuple[int, list[dict[str, Any]]]] = [
        (0, [output("b")]),
        (0, [output(None)]),
        (1, [HELLO, output("b")]),
        (2, [output("a"), calling("b"), output("c")]),
        (1, [output("a"), output("b"), calling("b")]),  # before its call
    ]
    for index, prompt in prompts:
        with pytest.raises(InvalidRequestError, match="no call of the context has the id") as caught:
            call(service, context, prompt, max_tokens=2)
        assert caught.value.field == f"prompt[{index}].tool_call_id"
    assert service.get(context).messages == before
    assert not service.get(context).running


@pytest.mark.parametrize(
    "prompt",
    [
        [HELLO, calling("a", "b"), output("b"), output("a")],
        [calling("a"), output("a"), calling("b"), output("b"), HELLO],
        [HELLO, calling(None), output(None)],  # both without an id
    ],
)
def test_outputs_follow_their_calls(service: ContextService, prompt: list[dict[str, Any]]) -> None:
    context = service.new_context()
    service.call(context, prompt, max_tokens=2)
    later = [output("a")] if prompt[0] == HELLO and "id" in prompt[1]["tool_calls"][0] else [HELLO]
    service.call(context, later, max_tokens=2)  # also in a later turn
    assert len(service.get(context).turns) == 2


def test_a_whole_conversation_may_be_cut_in_front(runtime: LocalRuntime, service: ContextService) -> None:
    messages = [output("cut off"), {"role": "assistant", "content": "12 C."}, HELLO]
    assert runtime.generate(messages, app=service.app, max_tokens=2).token_ids
    assert runtime.generate(messages, app=service.app, session="chat 7", max_tokens=2).token_ids


def test_calls_answered_by_the_engine_are_messages_of_the_context(
    service: ContextService, weather_tool: dict[str, Any]
) -> None:
    context = service.new_context()

    async def run() -> None:
        question = "What is the weather in Ljubljana?"
        stream = await service.start(context, question, tools=[weather_tool], max_tokens=80)
        assert stream.tool_outputs.put("get_weather", {"city": "Ljubljana"}, "12 C", 60)
        async with aclosing(stream.events()) as events:
            async for _ in events:
                pass

    asyncio.run(run())
    question, call, output, answer = service.get(context).messages
    assert question["role"] == "user"
    assert output == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "12 C"}
    assert "12" in answer["content"]


def test_a_second_call_is_refused_while_the_first_runs(service: ContextService, gate: Gate) -> None:
    context = service.new_context()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(service.call, context, "Hello!", max_tokens=8)
        gate.arrived()
        with pytest.raises(ContextBusyError, match="Wait for its answer"):
            service.call(context, "Are you there?")
        with pytest.raises(ContextBusyError):
            asyncio.run(service.acall(context, "Are you there?"))
        assert service.get(context).running
        gate.open()
        first.result(60)
    service.call(context, "Are you there?", max_tokens=4)
    assert [message["content"] for message in service.get(context).messages[::2]] == [
        "Hello!",
        "Are you there?",
    ]


@pytest.mark.parametrize("call", CALLS)
def test_deleting_a_context_ends_its_call(
    call: Callable[..., Generation], service: ContextService, gate: Gate
) -> None:
    context = service.new_context()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call, service, context, "Hello!", **LONG)
        gate.arrived()
        service.delete(context)
        gate.open()
        with pytest.raises(ContextNotFoundError, match=context.id):
            running.result(60)
    assert len(gate.steps) < 20  # the generation was cancelled, too
    assert service.contexts() == []


def test_a_cancelled_call_leaves_the_context_as_it_was(service: ContextService, gate: Gate) -> None:
    context = service.new_context(SYSTEM)

    async def cancelled() -> None:
        task = asyncio.create_task(service.acall(context, "Hello!", **LONG))
        await asyncio.to_thread(gate.arrived)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stream = await service.start(context, "Hello!", **LONG)
        stream.cancel()

    asyncio.run(cancelled())
    gate.open()
    with closing(service.iter_stream(context, "Hello!", **LONG)) as events:
        next(events)
    assert len(service.get(context).messages) == 1
    service.call(context, "Hello!", max_tokens=2)
    assert len(service.get(context).messages) == 3


def test_a_snapshot_that_its_owner_changes_is_a_copy(service: ContextService) -> None:
    context = service.new_context(SYSTEM)
    service.call(context, "Hello!", max_tokens=4)
    before = service.get(context).messages
    for snapshot in (context, service.get(context), *service.contexts()):
        for message in snapshot.messages:
            message["content"] = "changed"  # type: ignore[index]
    assert service.get(context).messages == before


def test_contexts_belong_to_their_app(runtime: LocalRuntime, service: ContextService) -> None:
    for app in (None, 5, "\ud800"):
        with pytest.raises(InvalidRequestError, match="app"):
            runtime.bind(app)  # type: ignore[arg-type]
    context = service.new_context(SYSTEM)
    other = runtime.bind("other")
    for use in (other.get, other.delete, lambda each: other.call(each, "Hello!")):
        with pytest.raises(ContextNotFoundError) as caught:
            use(context)
        assert caught.value.context_id == context.id
    assert other.contexts() == []
    assert [each.id for each in service.contexts()] == [context.id]


def test_the_number_and_the_length_of_contexts_are_limited(open_runtime: Callable[..., LocalRuntime]) -> None:
    service = open_runtime(contexts_per_app=1, max_context_tokens=100).bind("app")
    with pytest.raises(PromptTooLongError, match="a context holds 100"):
        service.new_context("word " * 200)
    context = service.new_context(SYSTEM)
    with pytest.raises(ContextQuotaError, match="contexts_per_app"):
        service.new_context()
    answer = service.call(context, "Hello!", ignore_eos=True)
    assert answer.finish_reason == "length"
    assert answer.usage.prompt_tokens + answer.usage.completion_tokens == 100
    with pytest.raises(PromptTooLongError, match=r"a new context .*, or raise max_context_tokens"):
        service.call(context, "Hello! " * 30, truncation="disabled")
    assert len(service.get(context).messages) == 3


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_is_refused_names_what_is_wrong_and_leaves_the_context_as_it_was(
    call: Callable[..., Generation], service: ContextService
) -> None:
    context = service.new_context(SYSTEM)
    wrong: list[tuple[Any, str]] = [
        ("", "prompt"),
        (" ", "prompt"),
        ("\ud800", "prompt"),
        ("word " * 20_000, "prompt"),
        ({"role": "user", "content": 7}, "prompt.content"),
        ({"role": "wizard", "content": ""}, "prompt.role"),
        ([HELLO, {"role": "wizard", "content": ""}], "prompt[1].role"),
        ([], "prompt"),
        (7, "prompt"),
        ([HELLO] * 4096, "prompt"),
    ]
    options = [{"temperature": -1}, {"app": "other"}, {"session": "x"}, {"context_id": "x"}]
    refused = [(prompt, field, {"max_tokens": 2}) for prompt, field in wrong]
    for prompt, field, chosen in [*refused, *(("Hello!", next(iter(each)), each) for each in options)]:
        with pytest.raises((InvalidRequestError, PromptTooLongError)) as caught:
            call(service, context, prompt, **chosen)
        assert caught.value.field == field
        assert not service.get(context).running
    assert len(service.get(context).messages) == 1


def test_errors_name_the_system_prompt_and_what_helps(runtime: LocalRuntime, service: ContextService) -> None:
    for prompt in (7, "\ud800", "word " * 20_000):
        with pytest.raises((InvalidRequestError, PromptTooLongError)) as caught:
            service.new_context(prompt)  # type: ignore[arg-type]
        assert caught.value.field == "system_prompt"
    context = service.new_context(SYSTEM)
    with pytest.raises(InvalidRequestError, match=r"would have 4097 messages.*begin a new context with what"):
        service.call(context, [HELLO] * 4096)
    chain = runtime.context_table.create(service.app, ContextKind.RESPONSES)
    with pytest.raises(InvalidRequestError, match=r"cannot be called.*previous_response_id"):
        service.call(chain, "Hello!")


def test_a_session_is_a_context_of_its_requests(runtime: LocalRuntime, service: ContextService) -> None:
    for _ in range(2):
        runtime.generate([HELLO], app=service.app, session="chat 7", max_tokens=4)
    (context,) = service.contexts()
    assert (context.kind, context.session, context.messages) == (ContextKind.SESSION, "chat 7", ())
    with pytest.raises(InvalidRequestError, match="It is a session: send"):
        service.call(context, "Hello!")
    service.delete(context)
    assert service.contexts() == []


def test_a_wrong_session_is_refused(runtime: LocalRuntime, service: ContextService) -> None:
    for session in ("", "x" * 257, "a\nb", 7):
        with pytest.raises(InvalidRequestError, match="session"):
            runtime.generate([HELLO], app=service.app, session=session)
    with pytest.raises(PromptTooLongError):
        runtime.generate([{"role": "user", "content": "x " * 20_000}], app=service.app, session="fine")
    assert service.contexts() == []


def test_system_prompts_are_tokenized_on_the_threads_that_apps_share(
    service: ContextService, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, apps = runtime._preparer._threads.run, list[str]()

    def noting(app: str, *arguments: Any, **options: Any) -> Any:
        apps.append(app)
        return run(app, *arguments, **options)

    monkeypatch.setattr(runtime._preparer._threads, "run", noting)
    assert asyncio.run(service.anew_context(SYSTEM)).messages[0]["content"] == SYSTEM
    assert apps == [service.app]
