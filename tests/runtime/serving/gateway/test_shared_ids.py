"""Replicas of a gateway of several apps that share in Redis what each app has stored at the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway import separation
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.gateway.conftest import waiting_for_redis
from tests.runtime.serving.gateway.redis_server import RedisServer
from tests.runtime.serving.gateway.scripted import Script
from tests.runtime.serving.http.serving import Running, Start

APPS = [("mine", "m" * 20), ("other", "o" * 20)]
MINE, OTHER = ({"authorization": f"Bearer {letter * 20}"} for letter in "mo")
MADE = b'{"id": "resp_1"}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b"


Replica = Start


@pytest.fixture
def replica(redis: RedisServer, start: Start, scripted: Script) -> Replica:
    """Starts replicas in front of one engine."""
    engine = scripted(ANSWER % (len(MADE), MADE))
    return lambda apps=APPS: start(engine.url, tokens=Tokens(apps), redis=redis.url)


def make(gateway: Running, path: str = "/v1/responses", headers: Any = MINE) -> None:
    assert httpx.post(gateway.url + path, json={}, headers=headers, timeout=60).content == MADE


def status(gateway: Running, headers: Any = MINE, path: str = "/v1/responses/resp_1") -> int:
    return httpx.get(gateway.url + path, headers=headers, timeout=60).status_code


def test_another_replica_and_the_next_process_know_it(replica: Replica) -> None:
    make(replica())
    other = replica()
    assert status(other) == 200
    continued = {"previous_response_id": "resp_1"}
    assert httpx.post(f"{replica().url}/v1/responses", json=continued, headers=MINE).status_code == 200
    refused = httpx.post(f"{other.url}/v1/responses", json=continued, headers=OTHER)
    assert refused.json()["error"]["code"] == "previous_response_not_found"


def test_other_apps_tokens_and_kinds_do_not(replica: Replica) -> None:
    make(replica())
    other = replica()
    assert status(other, OTHER) == 404
    assert status(other, path="/v1/contexts/resp_1") == 404
    assert status(other, path="/v1/responses/resp_2") == 404
    assert status(replica([("mine", "n" * 20), APPS[1]]), {"authorization": "Bearer " + "n" * 20}) == 404


def test_no_client_of_redis_can_read_or_make_an_id(replica: Replica, redis: RedisServer) -> None:
    make(replica())
    with redis.client() as client:
        (key,) = client.keys()
        assert client.ttl(key) > 29 * 86_400
        (member,) = client.zrange(key, 0, -1)
        assert b"resp" not in key + member
        client.zadd(key, {"resp_2": time.time()})
    assert status(replica(), path="/v1/responses/resp_2") == 404


def test_the_ids_of_an_app_are_bounded(
    replica: Replica, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separation, "MAX_IDS", 3)
    make(replica())
    with redis.client() as client:
        (key,) = client.keys()
        (member,) = client.zrange(key, 0, -1)
        client.zadd(key, {"first": 1, "second": 2, "third": 3, member: 0})
        assert status(replica()) == 200
        assert client.zrange(key, 0, -1)[-1] == member, "a use makes it the latest"
        make(replica(), headers=OTHER)
        assert client.zcard(key) == 4, "those of another app take no place"
        make(replica())
        assert client.zrange(key, 0, -1) == [b"second", b"third", member]


@pytest.mark.parametrize("fails", [RedisServer.stop, RedisServer.freeze])
def test_without_redis_each_replica_knows_its_own(
    replica: Replica,
    redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[RedisServer], None],
) -> None:
    waiting_for_redis(monkeypatch, 0.02, 0.1)
    first, second = replica(), replica()
    fails(redis)
    make(first)
    assert (status(first), status(second)) == (200, 404)
