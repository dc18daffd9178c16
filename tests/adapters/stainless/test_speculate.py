"""`speculate` on a client of each library: its loops, who gets which result, and what it takes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import httpx
import pytest

from agentrt import SpeculationConfig, ToolCall, run_scope, speculable
from agentrt.adapters import anthropic, openai
from agentrt.calls import CallArgumentsDelta, CallStarted
from agentrt.config import TurnAhead
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.anthropic import doubles as messages
from tests.adapters.doubles import Milestones, Oracle
from tests.adapters.openai import loops
from tests.adapters.openai.doubles import TOOLS, Endpoint
from tests.adapters.stainless.doubles import (
    AHEAD,
    HI,
    STREAM,
    THREE,
    TIMES,
    answered_client,
    look_tool,
    timed,
)
from tests.patience import until

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


@dataclass(frozen=True)
class Api:
    """A form of requests: its library's adapter and endpoint, and how to ask."""

    adapter: ModuleType
    endpoint: Any
    calls: Callable[..., Any]
    """Asks an async client with a history; returns the calls of the answer."""
    create: Callable[..., Any]
    """Asks an async client, streamed or not, for an answer to a greeting; returns it as the client does."""
    sync_results: Callable[..., list[Any]]
    """Runs a loop, streamed or not, of so many turns; returns what its tools gave."""


async def chat_calls(client: Any, history: list[Any]) -> Any:
    return (await loops.chat_create(client, history)).tool_calls


async def response_calls(client: Any, history: list[Any]) -> Any:
    return (await loops.responses_create(client, input=history)).output


async def message(client: Any, streamed: bool) -> Any:
    return await client.messages.create(messages=[HI], stream=streamed, **messages.ASKED)


async def chat_completion(client: Any, streamed: bool) -> Any:
    return await client.chat.completions.create(model="m", messages=[HI], tools=TOOLS, stream=streamed)


async def response(client: Any, streamed: bool) -> Any:
    return await loops.responses_create(client, input="hi", stream=streamed)


MESSAGES = Api(anthropic, messages.Endpoint, messages.create, message, messages.sync_results)
CHAT, RESPONSES = (
    Api(openai, Endpoint, calls, create, functools.partial(loops.sync_results, api=api))
    for api, calls, create in (
        ("chat", chat_calls, chat_completion),
        ("responses", response_calls, response),
    )
)
APIS = {"messages": MESSAGES, "chat": CHAT, "responses": RESPONSES}
EACH_API = pytest.mark.parametrize("api", APIS.values(), ids=APIS)
EACH_LIBRARY = pytest.mark.parametrize("api", [MESSAGES, CHAT], ids=["anthropic", "openai"])

# Loops, by every way there is to ask.

continued = functools.partial(loops.responses_loop, stateful=True)
WHOLE_HISTORIES = [
    *((MESSAGES, functools.partial(messages.loop, ask=ask)) for ask in messages.WAYS),
    *((CHAT, functools.partial(loops.chat_loop, ask=ask)) for ask in loops.CHAT),
    *(
        (RESPONSES, functools.partial(loops.responses_loop, ask=ask, stateful=False))
        for ask in loops.RESPONSES
    ),
]
CONTINUED = [(RESPONSES, functools.partial(continued, ask=ask)) for ask in loops.RESPONSES]


def each_loop_of(ways: Sequence[tuple[Api, Any]]) -> pytest.MarkDecorator:
    names = [
        loop.keywords["ask"].__name__ + " continued" * (loop.keywords.get("stateful", False))
        for _, loop in ways
    ]
    return pytest.mark.parametrize(("api", "loop"), ways, ids=names)


@each_loop_of([*WHOLE_HISTORIES, *CONTINUED])
@pytest.mark.parametrize("wrong", [[], [1], [0, 1, 2]], ids=["all right", "one wrong", "all wrong"])
def test_a_loop_takes_what_equation_1_says(api: Api, loop: Callable[..., Any], wrong: list[int]) -> None:
    endpoint = api.endpoint(THREE, delay=TIMES.generation)
    plain, plain_seconds, _ = timed(api.adapter, endpoint, loop, None)
    fast, seconds, _ = timed(api.adapter, endpoint, loop, wrong)
    assert fast == plain
    assert plain_seconds == TIMES.standard(3) + TIMES.generation
    assert seconds == pytest.approx(TIMES.speculative(1 - len(wrong) / 3, 3) + TIMES.generation)


@each_loop_of(WHOLE_HISTORIES)
def test_a_loop_that_sends_its_history_says_the_same_sooner_with_turns_ahead(
    api: Api, loop: Callable[..., Any]
) -> None:
    plain, _, _ = timed(api.adapter, api.endpoint(THREE), loop, None)
    endpoint = api.endpoint(THREE, delay=TIMES.generation)
    fast, seconds, client = timed(api.adapter, endpoint, loop, [], AHEAD)
    assert fast == plain
    assert seconds == 3 * (TIMES.draft + TIMES.tool) + TIMES.generation
    ahead = api.adapter.report_of(client).ahead
    assert (ahead.kept, ahead.wasted) == (3, 0)
    assert len(endpoint.requests) == 4


@each_loop_of([loop for loop in WHOLE_HISTORIES if loop[1].keywords["ask"].__name__.endswith("create")])
def test_a_request_ahead_that_fails_is_not_raised_and_is_sent_when_it_is_due(
    api: Api, loop: Callable[..., Any]
) -> None:
    endpoint, failed = api.endpoint(THREE, delay=TIMES.generation), list[int]()

    async def answer(request: httpx.Request) -> httpx.Response:
        if len(endpoint.requests) == 1 and not failed:
            failed.append(1)
            return httpx.Response(503, json={"error": {"message": "x"}})
        return await endpoint.aanswer(request)

    async def main() -> Any:
        async with answered_client(endpoint.kinds[1], endpoint.url, answer, max_retries=5) as plain:
            oracle = Oracle(THREE, delay=TIMES.draft)
            client = api.adapter.speculate(plain, oracle, tools=[look_tool(TIMES.tool)], config=AHEAD)
            assert "done" in str((await loop(client, run=api.adapter.arun_tool))[-1])
            return api.adapter.report_of(client).ahead

    assert run_in_virtual_time(main).kept < 3
    assert failed == [1]


@pytest.mark.parametrize("is_streamed", [False, True])
@EACH_API
def test_a_sync_loop_runs_its_tools_while_the_model_answers(api: Api, is_streamed: bool) -> None:
    milestones = Milestones()

    @speculable
    def look(q: str, limit: int = 3) -> str:
        milestones.reach(f"started {q}")
        return f"found {q} {limit}"

    with api.endpoint(THREE, gate=milestones.until_started).client() as plain:
        client = api.adapter.speculate(plain, Oracle(THREE, delay=0), tools=[look])
        assert isinstance(client, type(plain))
        results = api.sync_results(client, is_streamed, 4)
    assert results == ["found q0 3", "found q1 3", "found q2 3"]
    assert api.adapter.report_of(client).total.misses == 0


@pytest.mark.parametrize("is_streamed", [False, True])
@EACH_API
def test_a_sync_loop_is_answered_ahead(api: Api, is_streamed: bool) -> None:
    milestones = Milestones()

    @speculable
    def look(q: str) -> str:
        return f"found {q}"

    def gate(turn: int) -> None:  # no turn is answered before the next one has been asked for
        milestones.reach(f"asked {turn}")
        if turn < 3:
            milestones.wait(f"asked {turn + 1}")

    endpoint = api.endpoint(THREE, gate=gate)
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    with endpoint.client() as plain:
        client = api.adapter.speculate(plain, Oracle(THREE, delay=0), tools=[look], config=config)
        results = api.sync_results(client, is_streamed, 4)
    assert results == ["found q0", "found q1", "found q2"]
    assert api.adapter.report_of(client).ahead.kept == 3
    assert len(endpoint.requests) == 4


# What predictors see.


class Reader:
    """Notes requests and streams, and drafts a call once it has read its arguments."""

    def __init__(self) -> None:
        self.requests: list[DraftRequest] = []
        self.read: list[Any] = []

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        self.requests.append(request)
        async for event in request.answer.events():
            self.read.append(event)
            if isinstance(event, CallArgumentsDelta) and event.text.endswith("}"):
                yield ToolCall("look", {"q": "q0"})


@pytest.mark.parametrize(
    ("api", "loop", "described", "said"),
    [
        (
            MESSAGES,
            functools.partial(messages.loop, ask=messages.stream_helper),
            {"description": "Looks."},
            {"content": ""},
        ),
        (CHAT, functools.partial(loops.chat_loop, ask=loops.chat_streamed), {}, {}),
        (RESPONSES, functools.partial(continued, ask=loops.responses_streamed), {}, {"content": None}),
    ],
    ids=APIS,
)
def test_predictors_see_the_request_and_the_stream_in_one_shape(
    api: Api, loop: Callable[..., Any], described: dict[str, Any], said: dict[str, Any]
) -> None:
    reader = Reader()

    async def main() -> None:
        async with api.endpoint(THREE[:1], delay=1).async_client() as plain:
            client = api.adapter.speculate(plain, reader, tools=[look_tool(1)])
            await loop(client, run=api.adapter.arun_tool)

    run_in_virtual_time(main)
    call = [CallStarted(0, "look"), CallArgumentsDelta(0, '{"q"'), CallArgumentsDelta(0, ': "q0"}')]
    assert reader.read[:3] == call
    function = {"name": "look", "parameters": {"type": "object"}, **described}
    assert reader.requests[1].tools == [{"type": "function", "function": function}]
    calls = [{"id": "id_0_0", "type": "function", "function": {"name": "look", "arguments": '{"q": "q0"}'}}]
    answer = {"role": "assistant", "tool_calls": calls, **said}
    result = {"role": "tool", "tool_call_id": "id_0_0", "content": "found q0 3"}
    assert reader.requests[1].messages == [HI, answer, result]


SYSTEM: Any = [{"type": "text", "text": "be brief"}]


@pytest.mark.parametrize(
    ("api", "ask"),
    [
        (MESSAGES, lambda it: it.messages.create(messages=[HI], system=SYSTEM, **messages.ASKED)),
        (RESPONSES, lambda it: loops.responses_create(it, input="hi", instructions="be brief")),
    ],
    ids=["messages", "responses"],
)
def test_instructions_are_what_the_system_says(api: Api, ask: Callable[..., Any]) -> None:
    predictor = ScriptedSpeculator()

    async def main() -> None:
        async with api.endpoint([], delay=1).async_client() as plain:
            await ask(api.adapter.speculate(plain, predictor, tools=[look_tool(1)]))

    run_in_virtual_time(main)
    assert predictor.requests[0].messages == [{"role": "system", "content": "be brief"}, HI]


# Whose results they are.


@EACH_API
def test_equal_ids_of_different_runs_meet_only_if_the_runs_are_named(api: Api) -> None:
    async def user(client: Any, name: str) -> None:
        with run_scope(name):
            (call,) = await api.calls(client, [HI])
            await asyncio.sleep(10)
            assert await api.adapter.arun_tool(client, call) == "found q0 3"

    async def main() -> Any:
        draft = [ToolCall("look", {"q": "q0"})]
        async with api.endpoint(THREE, delay=5).async_client() as plain:
            client = api.adapter.speculate(plain, ScriptedSpeculator(draft, draft), tools=[look_tool(3)])
            await asyncio.gather(user(client, "ann"), user(client, "bob"))
            return api.adapter.report_of(client).total.claims

    assert run_in_virtual_time(main) == 2


@pytest.mark.parametrize("repeated", [True, False], ids=["ids repeat", "no ids"])
@EACH_API
def test_two_conversations_in_one_context_do_not_get_each_others_results(api: Api, repeated: bool) -> None:
    asked: list[str] = []

    @speculable
    async def look(q: str) -> str:
        return f"found for {asked[-1]}"

    async def main() -> Any:
        draft = [ToolCall("look", {"q": "q0"})]
        async with api.endpoint(THREE, delay=5).async_client() as plain:
            client = api.adapter.speculate(plain, ScriptedSpeculator(draft, draft), tools=[look])
            calls = {}
            for name in ("ann", "bob"):
                asked.append(name)
                (calls[name],) = await api.calls(client, [HI])
            for name, call in calls.items():
                asked.append(name)
                result = api.adapter.arun_tool(client, call) if repeated else look(q="q0")
                assert await result == f"found for {name}"
            return api.adapter.report_of(client).total

    total = run_in_virtual_time(main)
    assert (total.claims, total.misses, total.calls) == (0, 2, 2)


# Answers that are none.

JSON = "application/json"
STARTED = messages.sent([{"type": "message_start", "message": messages.message([])}])
BROKEN_MESSAGE = STARTED + 'event: error\ndata: {"error": {"message": "x"}}\n\n'
CHUNK = 'data: {"choices": [{"index": 0, "delta": {"content": "a"}}], "object": "chat.completion.chunk"}\n\n'
BROKEN_CHAT = CHUNK + 'data: {"error": {"message": "x"}}\n\n'


def answered(api: Api, status: int, content: str, kind: str) -> AbstractAsyncContextManager[Any]:
    """A client whose requests are all answered by ``content``."""
    answer = functools.partial(httpx.Response, status, content=content, headers={"content-type": kind})
    return answered_client(api.endpoint.kinds[1], api.endpoint.url, lambda request: answer())


@pytest.mark.parametrize(
    ("api", "status", "kind", "content"),
    [
        (MESSAGES, 401, JSON, "{}"),
        (MESSAGES, 500, "text/plain", "no JSON"),
        (MESSAGES, 200, JSON, "{}"),
        (MESSAGES, 200, JSON, '{"type": "message"}'),
        (MESSAGES, 200, JSON, '{"type": "message", "content": [{"type": "tool_use"}]}'),
        (MESSAGES, 200, JSON,
         '{"type": "message", "content": [{"type": "tool_use", "id": 1, "name": "look", "input": 3}]}'),
        (MESSAGES, 200, STREAM, ""),
        (MESSAGES, 200, STREAM, STARTED),
        (MESSAGES, 200, STREAM, BROKEN_MESSAGE),
        (MESSAGES, 200, STREAM, 'event: content_block_start\ndata: {"type": "content_block_start"}\n\n'),
        (MESSAGES, 200, STREAM,
         'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 3}\n\n'),
        (CHAT, 401, JSON, "{}"),
        (CHAT, 429, JSON, "{}"),
        (CHAT, 500, JSON, "{}"),
        (CHAT, 200, JSON, '{"id": "x"}'),
        (CHAT, 200, JSON, '{"choices": []}'),
        (CHAT, 200, JSON, '{"choices": [{"message": {"tool_calls": [{"id": 1}]}}]}'),
        (CHAT, 200, JSON,
         '{"choices": [{"message": {"tool_calls": [{"id": "1", "type": "function",'
         ' "function": {"name": "look", "arguments": "{\\"q\\": NaN}"}}]}}]}'),
        (CHAT, 200, JSON, '{"choices": 7}'),
        (CHAT, 200, STREAM, BROKEN_CHAT),
        (RESPONSES, 401, JSON, "{}"),
        (RESPONSES, 200, JSON, '{"output": 7}'),
    ],
)  # fmt: skip
def test_whatever_comes_is_what_the_plain_client_makes_of_it(
    api: Api, status: int, kind: str, content: str
) -> None:
    async def outcome(client: Any) -> str:
        try:
            answer = await api.create(client, kind == STREAM)
            return repr([event async for event in answer] if kind == STREAM else answer)
        except Exception as error:  # noqa: BLE001 - compared
            return repr(error)

    async def main() -> None:
        async with answered(api, status, content, kind) as plain:
            client = api.adapter.speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)])
            assert await outcome(client) == await outcome(plain)
            if status != 200:
                assert api.adapter.report_of(client).turns[0].generation_s is None

    run_in_virtual_time(main)


@pytest.mark.parametrize(("api", "broken"), [(MESSAGES, BROKEN_MESSAGE), (CHAT, BROKEN_CHAT)])
def test_a_stream_that_breaks_off_or_is_left_discards_its_speculations(api: Api, broken: str) -> None:
    async def main() -> Any:
        async with answered(api, 200, broken, STREAM) as plain:
            client = api.adapter.speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)])
            with pytest.raises(Exception, match="x"):
                async for _ in await api.create(client, True):
                    pass
            unread = await api.create(client, True)
            await unread.close()
            return api.adapter.report_of(client).turns

    assert [turn.generation_s for turn in asyncio.run(main())] == [None, None]


# What it takes.


@EACH_LIBRARY
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tools": []}, "at least one tool"),
        ({"tools": [print]}, "@speculable"),
        ({"predictors": []}, "at least one predictor"),
        ({"predictors": [None]}, "a predictor"),
        ({"tool_cache": "yes"}, "tool_cache is 'yes'.*force"),
    ],
)
def test_wrong_arguments_are_named(api: Api, wrong: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"predictors": ScriptedSpeculator(), "tools": [look_tool(0)], **wrong}
    with api.endpoint([]).client() as plain, pytest.raises(ConfigurationError, match=message):
        api.adapter.speculate(plain, given.pop("predictors"), **given)


@EACH_LIBRARY
def test_a_client_that_speculates_gets_other_predictors_and_a_report_of_its_own(api: Api) -> None:
    speculate, report_of = api.adapter.speculate, api.adapter.report_of
    first, second = ScriptedSpeculator(), ScriptedSpeculator()
    with api.endpoint([], gate=lambda turn: until(lambda: second.requests)).client() as plain:
        with pytest.raises(ConfigurationError, match="speculate"):
            report_of(plain)
        once = speculate(plain, first, tools=[look_tool(0)])
        twice = speculate(once, second, tools=[look_tool(0)])
        assert type(twice) is type(once)
        api.sync_results(twice, False, 1)
        assert [len(report_of(client).turns) for client in (once, twice)] == [0, 1]
    assert first.requests == []
