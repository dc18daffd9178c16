"""Replicas of a gateway that share tool outputs in a real Redis or Valkey server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.gateway import GatewayConfig, bounded_redis, shared_outputs
from agentrt.runtime.serving.gateway.bounded_redis import BoundedRedis
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.gateway.conftest import waiting_for_redis
from tests.runtime.serving.gateway.redis_server import RedisServer
from tests.runtime.serving.gateway.scripted import (
    FINISHED,
    FIRST,
    OUTPUT,
    STOP,
    STREAM,
    STREAMED,
    Script,
    Scripted,
    submit,
)
from tests.runtime.serving.gateway.scripted import streaming as scripted_streaming
from tests.runtime.serving.http.serving import Running, Start, until

PATH = {"type": "string"}
TOOL = {
    "type": "function",
    "function": {"name": "read", "parameters": {"properties": {"path": PATH, "lines": {"default": 10}}}},
}
CHAT: Any = STREAMED | {"tools": [TOOL]}
TOKENS = [("mine", "t" * 20), ("other", "u" * 20)]
MINE, OTHER = ({"authorization": f"Bearer {letter * 20}"} for letter in "tu")


def calling(*arguments: str) -> bytes:
    calls = [
        {"index": index, "id": f"c{index}", "function": {"name": "read", "arguments": each}}
        for index, each in enumerate(arguments)
    ]
    chunk = {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": calls}}]}
    return f"data: {json.dumps(chunk)}\n\n".encode() + FINISHED


READ_A, READ_B = '{"path": "a"}', '{"path": "b"}'
CALL = calling(READ_A)


@contextmanager
def streaming(gateway: Running, engine: Scripted, **headers: Any) -> Iterator[tuple[str, Any]]:
    """A stream whose id is known; what it returns lets the engine call and reads the rest."""
    with scripted_streaming(gateway, CHAT, **headers) as (id, data):

        def rest() -> list[dict[str, Any]]:
            engine.go_on.set()
            *chunks, done = data
            assert done == "[DONE]"
            return [chunk["choices"][0] for chunk in chunks]

        yield id, rest


def results(choices: list[dict[str, Any]]) -> list[str]:
    return [result["content"] for choice in choices for result in choice["delta"].get("tool_results", ())]


Replicas = Callable[..., tuple[Running, Running, Scripted]]


@pytest.fixture
def replicas(redis: RedisServer, start: Start, scripted: Script) -> Replicas:
    """Two replicas and the engine behind them, which calls a tool once and then answers."""

    def both(call: bytes = CALL, then: bytes = FIRST + STOP, **settings: Any) -> Any:
        engine = scripted(STREAM, held=call, next_answer=STREAM + then)
        settings = {"redis": redis.url} | settings
        return start(engine.url, **settings), start(engine.url, **settings), engine

    return both


def told(both: tuple[Running, Running, Scripted], *outputs: Any, **headers: Any) -> tuple[Any, list[str]]:
    """How many outputs one replica takes for a stream of the other, and the results in that stream."""
    here, elsewhere, engine = both
    with streaming(here, engine, **headers) as (id, rest):
        return submit(elsewhere, id, *outputs, **headers), results(rest())


def test_an_output_that_another_replica_received_answers_the_call(
    replicas: Replicas, redis: RedisServer
) -> None:
    here, elsewhere, engine = replicas()
    with streaming(here, engine) as (id, rest):
        assert submit(elsewhere, id) == 1
        choices = rest()
    assert (results(choices), choices[-1]["finish_reason"]) == (["the text"], "stop")
    with redis.client() as client:
        (left,) = client.keys()
        until(lambda: client.ttl(left) <= 60)  # for its end, of which its client does not wait to hear
        assert client.ttl(left) > 0
    assert submit(elsewhere, id) == submit(here, id) == 0, "it has ended"
    assert submit(elsewhere, "chatcmpl-unknown") == 404


def test_one_command_for_each_response_at_its_beginning_and_its_end(
    replicas: Replicas, redis: RedisServer
) -> None:
    here, _, engine = replicas(FIRST + STOP)
    with streaming(here, engine) as (_, rest):
        rest()
    with redis.client() as client:
        until(lambda: client.ttl(client.keys()[0]) <= 60)
        received = client.info("commandstats")
    assert received["cmdstat_eval"]["calls"] == 2
    assert "cmdstat_multi" not in received


def test_outputs_of_both_replicas_answer_the_calls_of_one_turn(replicas: Replicas) -> None:
    """Also where one of them has the default of an argument."""
    here, elsewhere, engine = replicas(calling('{"path": "a", "lines": 10}', READ_B))
    with streaming(here, engine) as (id, rest):
        assert submit(elsewhere, id) == 1
        assert submit(here, id, OUTPUT | {"params": {"path": "b"}, "output": {"lines": 3}}) == 1
        assert results(rest()) == ["the text", '{"lines": 3}']


def test_without_an_output_the_call_is_the_clients(replicas: Replicas) -> None:
    for arguments in (READ_B, '{"path": ', "[]"):
        assert told(replicas(calling(arguments))) == (1, [])


@pytest.mark.parametrize(("reusable", "answered"), [(True, 32 - 1), (False, 1)])
def test_an_output_that_is_not_reusable_answers_one_call(
    replicas: Replicas, reusable: bool, answered: int
) -> None:
    assert told(replicas(then=CALL), OUTPUT | {"reusable": reusable}) == (1, ["the text"] * answered)


def test_what_is_not_stored(replicas: Replicas) -> None:
    here, elsewhere, engine = replicas()
    with streaming(here, engine) as (id, rest):
        assert submit(elsewhere, id, OUTPUT | {"name": "write"}) == 0
        assert submit(elsewhere, id, OUTPUT | {"output": "x" * 2**18}) == 0
        assert submit(elsewhere, id, OUTPUT | {"params": {"path": 10**30 * 1.0}}) == 1
        many = [OUTPUT | {"params": {"path": str(number)}} for number in range(64)]
        assert submit(elsewhere, id, *many) == 63
        assert submit(elsewhere, id) == 0
        assert results(rest()) == []
    many = [OUTPUT | {"params": {"path": str(n)}, "output": "x" * 200_000} for n in range(8)]
    assert told(replicas(), *many) == (5, []), "of one response a MiB"


def test_an_output_is_kept_as_long_as_its_client_says(replicas: Replicas, redis: RedisServer) -> None:
    here, elsewhere, engine = replicas()
    with streaming(here, engine) as (id, rest), redis.client() as client:
        for keep_alive, most in ((None, 300), (7, 7), (10**6, 3600)):
            assert submit(elsewhere, id, OUTPUT | ({"keep_alive": keep_alive} if keep_alive else {})) == 1
            (name,) = client.keys("*:output:*")
            assert most - 60 < client.ttl(name) <= most
        assert submit(elsewhere, id, OUTPUT | {"keep_alive": 0.001}) == 1
        until(lambda: not client.keys("*:output:*"))
        assert results(rest()) == []


def test_an_app_has_its_own_responses_and_outputs(
    replicas: Replicas, redis: RedisServer, start: Start
) -> None:
    here, elsewhere, engine = replicas(tokens=Tokens(TOKENS))
    namesake = start(engine.url, redis=redis.url, tokens=Tokens([("mine", "v" * 20)]))
    with streaming(here, engine, **MINE) as (id, rest):
        assert submit(elsewhere, id, **OTHER) == 404
        assert submit(namesake, id, authorization="Bearer " + "v" * 20) == 404, "other tokens, another app"
        assert submit(elsewhere, id) == 401
        with redis.client() as client:
            (response,) = client.keys()
            assert b"mine" not in response
            assert id.encode() not in response
        assert results(rest()) == []


@pytest.mark.parametrize("forged", [b"", b"x" * 100, None])
def test_what_another_client_of_redis_writes_is_not_claimed(
    replicas: Replicas, redis: RedisServer, forged: bytes | None
) -> None:
    here, elsewhere, engine = replicas(calling(READ_A, READ_B), tokens=Tokens(TOKENS))
    with streaming(here, engine, **MINE) as (id, rest), redis.client() as client:
        outputs = [OUTPUT, OUTPUT | {"params": {"path": "b"}, "output": "another text"}]
        assert submit(elsewhere, id, *outputs, **MINE) == 2
        first, second = client.keys("*:output:*")
        client.set(first, client.get(second) if forged is None else forged, ex=60)  # that of another call
        assert results(rest()) == []


def test_gateways_of_different_versions_miss(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere, engine = replicas()
    with streaming(here, engine) as (id, rest):
        with monkeypatch.context() as newer:
            newer.setattr(bounded_redis, "FORMAT", bounded_redis.FORMAT + 1)
            assert submit(elsewhere, id) == 404
        assert results(rest()) == []


def test_without_redis_each_replica_works_alone(
    replicas: Replicas, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    here, elsewhere, engine = replicas(calling(READ_A, READ_B))
    redis.stop()
    with streaming(here, engine) as (id, rest):
        assert submit(elsewhere, id) == 0
        assert submit(here, id) == 1
        choices = rest()
    assert (results(choices), choices[-1]["finish_reason"]) == ([], "tool_calls")
    assert told((here, elsewhere, engine)) == (0, [])
    # The last failure is that of the end of the second response, of which its client does not wait to hear.
    until(lambda: any("Redis fails" in message for message in caplog.messages))
    assert caplog.text.count("Redis fails") <= 2, "a replica says it once"


def test_a_redis_that_does_not_answer_is_not_waited_for(
    replicas: Replicas, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_redis, "_PAUSE_S", 10**6)
    waiting_for_redis(monkeypatch, 0.02, 0.1)
    here, elsewhere, engine = replicas()
    redis.freeze()
    with streaming(here, engine) as (id, rest):
        assert [submit(elsewhere, id) for _ in range(8)] == [0] * 8
        assert rest()[-1]["finish_reason"] == "tool_calls"
    redis.thaw()


def test_what_a_slow_redis_is_late_with_counts_from_then_on(
    replicas: Replicas, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere, engine = replicas()
    with redis.client() as client:
        client.client_pause(60_000, all=False)  # all that would change anything waits
        monkeypatch.setattr(shared_outputs, "_STREAM_TIMEOUT_S", 0.0)
        with streaming(here, engine) as (id, rest):
            assert submit(elsewhere, id) == 404, "not known there yet"
            client.client_unpause()
            until(lambda: submit(elsewhere, id) == 1)
            assert results(rest()) == ["the text"]


def test_a_redis_that_restarts_within_a_stream_loses_what_it_had(
    replicas: Replicas, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_redis, "_PAUSE_S", 0.0)
    here, elsewhere, engine = replicas(then=FIRST + CALL)
    with streaming(here, engine) as (id, rest):
        assert submit(elsewhere, id) == 1
        redis.stop()
        redis.start()
        assert submit(elsewhere, id) == 404
        assert results(rest()) == []
    with streaming(here, engine) as (id, rest):  # the engine calls at once
        assert results(rest()) == []
        assert submit(elsewhere, id) == 0, "it is known again, and has ended"


def test_a_full_redis_stores_nothing_and_stops_nothing(replicas: Replicas, redis: RedisServer) -> None:
    here, elsewhere, engine = replicas()
    with streaming(here, engine) as (id, rest):
        with redis.client() as client:
            client.config_set("maxmemory", 1)
        assert submit(elsewhere, id) == 0
        assert rest()[-1]["finish_reason"] == "tool_calls"
    with streaming(here, engine) as (id, rest):
        assert rest()[-1]["finish_reason"] == "stop"


def test_a_password(redis: RedisServer, replicas: Replicas) -> None:
    with redis.client() as client:
        client.config_set("requirepass", "secret")
    assert told(replicas(redis_password="secret")) == (1, ["the text"])
    assert told(replicas(redis_password="wrong")) == (0, [])


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        *(
            (url, "is no redis://HOST")
            for url in ("localhost:6379", "http://x", "redis://", "redis://x:0", "unix://")
        ),
        ("redis://x:y", "is not the address"),
        ("redis://:secret@x", "--redis-password-file"),
    ],
)
def test_invalid_addresses(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        GatewayConfig(upstream="http://x", redis=url).check()
    assert "secret" not in str(refused.value)


@pytest.mark.needs("redis-server")
@pytest.mark.parametrize("fault", ["password", "database", "down", None])
def test_whether_redis_can_be_used_is_said_at_the_start(
    tmp_path: Path, start: Start, caplog: pytest.LogCaptureFixture, fault: str | None
) -> None:
    """In the log and at ``/health``; the gateway serves."""
    redis = RedisServer(tmp_path)
    url = redis.url.removesuffix("0") + ("99" if fault == "database" else "0")
    if fault != "down":
        redis.start()
    try:
        password = "wrong" if fault == "password" else None
        gateway = start("http://127.0.0.1:9", tokens=Tokens(TOKENS), redis=url, redis_password=password)
        said = {"status": "ok", "redis": "failing" if fault else "ok"}
        until(lambda: httpx.get(f"{gateway.url}/health").json() == said)
        if fault:
            until(lambda: "Redis fails" in caplog.text)
            assert "--redis-password-file" in caplog.text
        assert caplog.text.count("Redis fails") == (1 if fault else 0)
        assert "wrong" not in caplog.text.replace("wrong number", "")
    finally:
        redis.stop()


class Work:
    """What Redis is asked: it answers once it may."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = self.ended = 0

    async def __call__(self, _: Any) -> str:
        self.asked += 1
        await self.go_on.wait()
        self.ended += 1
        return "answer"


def test_what_is_late_is_not_cancelled_and_then_not_asked_again() -> None:
    async def run() -> None:
        now = 0.0
        redis, late = BoundedRedis("redis://127.0.0.1:1", clock=lambda: now), Work()
        assert [await redis.ask(late, 0.0) for _ in range(9)] == [None] * 9
        assert (late.asked, late.ended) == (5, 0)
        for later, tries in ((0.9, 5), (1.0, 6), (1.9, 6), (2.0, 7)):  # one for each second
            now = later
            assert [await redis.ask(late, 0.0) for _ in range(3)] == [None] * 3
            assert (late.asked, late.ended) == (tries, 0)
        late.go_on.set()
        await redis.aclose()
        assert late.ended == 7
        now = 3.0
        assert [await redis.ask(late, 60.0) for _ in range(2)] == ["answer"] * 2

    asyncio.run(run())


@pytest.mark.parametrize(("slow_s", "asked_again"), [(60.0, True), (-1.0, False)])
def test_late_answers_show_that_it_works_unless_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, slow_s: float, asked_again: bool
) -> None:
    """A busy machine has several callers wait in vain at once; Redis may be well."""
    monkeypatch.setattr(bounded_redis, "_SLOW_S", slow_s)

    async def run() -> None:
        redis, late = BoundedRedis("redis://127.0.0.1:1", clock=lambda: 0.0), Work()
        assert [await redis.ask(late, 0.0) for _ in range(5)] == [None] * 5
        late.go_on.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert await redis.ask(late, 60.0) == ("answer" if asked_again else None)
        await redis.aclose()

    asyncio.run(run())


def test_an_answer_that_came_while_the_loop_stood_still_counts() -> None:
    async def soon(_: Any) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "answer"

    assert asyncio.run(BoundedRedis("redis://127.0.0.1:1").ask(soon, 0.0)) == "answer"


def test_another_fault_than_of_redis_is_raised() -> None:
    async def wrong(_: Any) -> str:
        raise TypeError("a defect")

    with pytest.raises(TypeError, match="a defect"):
        asyncio.run(BoundedRedis("redis://127.0.0.1:1").ask(wrong, 60.0))
