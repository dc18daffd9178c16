"""A Redis or Valkey server that is asked for a bounded time, and values that only replicas can read."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic_core import from_json

from agentrt.errors import ConfigurationError
from agentrt.extras import needs_extra

from ..http.identity import Tokens
from ..http.strict_json import compact_json

T = TypeVar("T")

_FAILURES: Final = 5
_PAUSE_S: Final = 1.0
_SOCKET_TIMEOUT_S: Final = 1.0
"""Ends work whose caller no longer waits."""
_SLOW_S: Final = 0.25
"""A server that answers within this time works, also where a caller has waited less: machines are busy."""
_MAX_CONNECTIONS: Final = 32
_GRACE: Final = 4
"""Turns of the event loop in which an answer that has arrived is read. The loop may have stood still for the
whole time that Redis had, and then the answer is there although the time is over."""

_log: Final = logging.getLogger(__name__)

FORMAT: Final = 1
"""The version of what is stored. Gateways of another version find nothing."""
_DIGEST_BYTES: Final = 32


class BoundedRedis:
    """A client that answers None in place of an error or of an answer that is late.

    After five failures in a row nothing is asked for a second, or until a late answer comes; then once a
    second until it answers. For one event loop.
    """

    def __init__(
        self, url: str, password: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare connections to ``url``; none is opened yet. ``clock`` returns seconds.

        Raises:
            ConfigurationError: ``url`` is not the address of a Redis server.
            MissingExtraError: redis-py is not installed.
        """
        check_redis_url(url)
        with needs_extra("redis"):
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import ConnectionError, RedisError
        self._errors = (RedisError, OSError)
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                password=password,
                protocol=2,
                max_connections=_MAX_CONNECTIONS,
                timeout=_SOCKET_TIMEOUT_S,
                socket_timeout=_SOCKET_TIMEOUT_S,
                socket_connect_timeout=_SOCKET_TIMEOUT_S,
                # A connection that was closed while it was idle is opened again, once.
                retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
            )
        except ValueError as error:
            raise _invalid(url, str(error)) from error
        self._redis: Any = Redis.from_pool(pool)  # which it closes
        self._clock = clock
        self._failures = 0
        """Failures in a row."""
        self._next_try = 0.0
        self._running: set[asyncio.Task[Any]] = set()
        self.answers: bool | None = None
        """Whether the last request was answered; None before the first."""

    async def greet(self) -> None:
        """Ask whether it can be used, so often that the log says at once if it cannot."""
        for _ in range(_FAILURES):
            if await self.ask(lambda redis: redis.ping(), _SOCKET_TIMEOUT_S):
                return

    async def ask(self, work: Callable[[Any], Awaitable[T]], timeout_s: float) -> T | None:
        """Return what ``work`` returns, which is given the client; None if it fails or takes longer.

        It is not cancelled then, so that no connection has an answer on it that belongs to nobody.
        """
        if not self._may_ask():
            return None
        task = asyncio.ensure_future(work(self._redis))
        self._running.add(task)
        task.add_done_callback(functools.partial(self._ended, asyncio.get_running_loop().time()))
        await asyncio.wait({task}, timeout=timeout_s)
        for _ in range(_GRACE):
            if not task.done():
                await asyncio.sleep(0)
        if not task.done():
            self._failed(f"no answer within {timeout_s} s")
            return None
        try:
            answer = task.result()
        except self._errors as error:
            self._failed(str(error))
            return None
        self._succeeded()
        return answer

    async def aclose(self) -> None:
        """Wait for the work in progress, at most two seconds, and close all connections."""
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._redis.aclose()

    def _ended(self, began: float, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled() or task.exception() is not None:
            return
        if asyncio.get_running_loop().time() - began < _SLOW_S:
            self._succeeded()

    def _may_ask(self) -> bool:
        """Whether a request may be made now; where the last ones have failed, one in each pause."""
        now = self._clock()
        if self._failures >= _FAILURES and now < self._next_try:
            return False
        self._next_try = now + _PAUSE_S
        return True

    def _succeeded(self) -> None:
        self.answers = True
        if self._failures >= _FAILURES:
            _log.warning("Redis answers again: replicas know what others received.")
        self._failures = 0

    def _failed(self, reason: str) -> None:
        self.answers = False
        self._failures += 1
        if self._failures == _FAILURES:
            _log.warning(
                "Redis fails (%s): no replica knows what others received until it answers. See that it runs, "
                "is near, and has memory, and that --redis has its address and database and "
                "--redis-password-file its password.",
                reason,
            )


def check_redis_url(url: str) -> None:
    """Check the address of a Redis server.

    Raises:
        ConfigurationError: it is none, or holds a password, which other users of the machine could read.
    """
    try:
        parts = urlsplit(url)
        known = parts.hostname and parts.port != 0 and parts.scheme in ("redis", "rediss")
    except ValueError as error:
        raise _invalid(url, str(error)) from error
    if parts.password:
        raise ConfigurationError(
            "the address of Redis holds a password, which other users of this machine can see. Write it to a "
            "file, and name the file with --redis-password-file."
        )
    if not known and not (parts.scheme == "unix" and parts.path):
        raise _invalid(url, "it is no redis://HOST:PORT, rediss://HOST:PORT or unix://PATH")


def _invalid(url: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{url!r} is not the address of a Redis server: {problem}. Use one like redis://127.0.0.1:6379/0."
    )


class AppSeal:
    """Names under which one app's values lie in a shared store, and their authentication (HMAC-SHA256).

    A value belongs to one name, and a name to one app, response and call: no app, and no other client of the
    store, can submit or claim an output of another one.
    """

    def __init__(self, app: str, tokens: Tokens | None) -> None:
        """All replicas have the same ``tokens``: with others, an app's values are not found."""
        secret = b"" if tokens is None else tokens.secret_of(app)
        self._key = hmac.digest(secret, app.encode(), hashlib.sha256)

    def name(self, kind: str, *parts: str) -> str:
        """Return the name of the value of this kind that ``parts`` identify."""
        return f"agentrt:{FORMAT}:{kind}:{self._digest(json.dumps([kind, *parts]).encode()).hex()}"

    def seal(self, name: str, value: Any) -> bytes:
        """Return ``value``, which JSON can express, as bytes to store under ``name``."""
        text = compact_json(value).encode()
        return self._digest(name.encode() + text) + text

    def unseal(self, name: str, stored: bytes | None) -> Any:
        """Return the value stored under ``name``; None if this app has stored none there."""
        if stored is None or len(stored) <= _DIGEST_BYTES:
            return None
        digest, text = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        return from_json(text) if hmac.compare_digest(digest, self._digest(name.encode() + text)) else None

    def _digest(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)
