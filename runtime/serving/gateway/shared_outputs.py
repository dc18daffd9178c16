"""Tool outputs that replicas of one gateway share in Redis or Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from agentrt.calls import ToolCall
from agentrt.concurrency.fair_threads import Cancellation, FairThreads
from agentrt.errors import InvalidRequestError

from ...toolcache.outputs import OutputLimits, ToolOutputs, call_key
from ..http.identity import Tokens
from ..tool_cache_route import ToolOutputEntry
from .bounded_redis import AppSeal, BoundedRedis

_STREAM_TIMEOUT_S: Final = 0.02
"""A stream waits this long for Redis when it begins. What is late is done all the same."""
_TAKE_TIMEOUT_S: Final = 0.25
"""A stream waits this long when a turn ends in calls without outputs: a miss costs the client a request."""
_SUBMISSION_TIMEOUT_S: Final = 0.25
"""A client waits this long when its output reached another replica. The stream goes on meanwhile."""
_ENDED_S: Final = 60
"""How long an ended response is known, as in :class:`OpenResponses`."""
_MAX_RESPONSE_BYTES: Final = 64 * 2**10
"""Of the names and defaults of a request's tools. Outputs of a request that has more are not shared."""

_LIMITS: Final = OutputLimits()
_STORE: Final = """
local held = redis.call('HMGET', KEYS[1], 'entries', 'bytes')
if not held[1] or tonumber(held[1]) >= tonumber(ARGV[3]) then return 0 end
if tonumber(held[2]) + tonumber(ARGV[2]) > tonumber(ARGV[4]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'entries', 1)
redis.call('HINCRBY', KEYS[1], 'bytes', ARGV[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[5])
return 1
"""
"""Stores an output of a response, within the limits of one response; returns how many were stored."""
_REPLACE: Final = """
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""
"""Stores the fields of a response in place of those that it has: one command, one answer."""


class SharedOutputs:
    """The outputs that one replica received for responses that another one streams.

    A replica registers each response that it streams, with the names and defaults of its tools. Another one
    that receives an output for it stores the output under the call's key. Where a turn ends in calls without
    outputs, the first replica takes theirs. Whatever fails or is late is a miss: the client makes the call.
    """

    def __init__(self, redis: BoundedRedis, tokens: Tokens | None, threads: FairThreads) -> None:
        """``threads`` do what takes long with large outputs."""
        self._redis = redis
        self._tokens = tokens
        self._threads = threads

    @property
    def answers(self) -> bool | None:
        """Whether Redis answered the last time; None if it was not asked yet."""
        return self._redis.answers

    @asynccontextmanager
    async def response(self, app: str, id: str, outputs: ToolOutputs) -> AsyncGenerator[SharedResponse, None]:
        """Begin to register the response ``id`` of ``app``, until the block ends.

        ``outputs`` are those that this replica received. Await :meth:`SharedResponse.registered` before the
        client learns the id.
        """
        seal = AppSeal(app, self._tokens)
        name = seal.name("response", id)
        value = seal.seal(name, {"defaults": outputs.defaults})
        if len(value) > _MAX_RESPONSE_BYTES:
            yield SharedResponse(self._redis, seal, id, outputs, None)
            return
        register = _replacing(name, {"tools": value, "entries": 0, "bytes": 0}, _LIMITS.max_keep_alive_s)

        async def registered() -> None:
            await asyncio.sleep(0)  # the engine's request goes first, and Redis is asked while it works
            await self._redis.ask(register, _STREAM_TIMEOUT_S)

        registering = asyncio.create_task(registered())
        try:
            yield SharedResponse(self._redis, seal, id, outputs, registering)
        finally:
            await registering
            await self._redis.ask(_replacing(name, {"ended": 1}, _ENDED_S), _STREAM_TIMEOUT_S)

    async def submit(self, app: str, id: str, submitted: Sequence[ToolOutputEntry]) -> int | None:
        """Store outputs for a response that another replica streams.

        Returns:
            The number of stored outputs, 0 if Redis does not answer; None if ``app`` has no such response.

        Raises:
            InvalidRequestError: the arguments of a call have no canonical key.
        """
        seal = AppSeal(app, self._tokens)
        name = seal.name("response", id)
        found = await self._redis.ask(
            lambda redis: redis.hmget(name, "tools", "ended"), _SUBMISSION_TIMEOUT_S
        )
        if found is None:
            return 0
        tools, ended = found
        response = seal.unseal(name, tools)
        if response is None:
            return None if ended is None else 0
        defaults = response["defaults"]

        def sealed(cancellation: Cancellation) -> list[tuple[object, ...]]:
            stored: list[tuple[object, ...]] = []
            for entry in submitted:
                cancellation.check()
                if entry.name not in defaults or entry.is_predicted:
                    continue
                key = call_key(defaults[entry.name], entry.name, entry.params or {})
                size = len(entry.text.encode("utf-8", "replace")) + len(key)
                if size <= _LIMITS.entry_bytes:
                    output = seal.name("output", id, key)
                    value = seal.seal(output, {"output": entry.text, "reusable": entry.reusable})
                    ttl_ms = round(1000 * _LIMITS.seconds(entry.keep_alive))
                    stored.append((output, value, size, _LIMITS.entries, _LIMITS.total_bytes, ttl_ms))
            return stored

        outputs = await self._threads.run(app, sealed)

        async def store(redis: Any) -> list[int]:
            async with redis.pipeline(transaction=False) as pipe:
                for each in outputs:
                    pipe.eval(_STORE, 2, name, *each)
                counts: list[int] = await pipe.execute()
                return counts

        return sum(await self._redis.ask(store, _SUBMISSION_TIMEOUT_S) or ())


@dataclass(frozen=True)
class SharedResponse:
    """A response that this replica streams, and the outputs that other replicas received for it."""

    redis: BoundedRedis
    seal: AppSeal
    id: str
    outputs: ToolOutputs
    registering: asyncio.Task[object] | None

    async def registered(self) -> None:
        """Wait until other replicas know the response, or Redis has had its time."""
        if self.registering is not None:
            await asyncio.shield(self.registering)

    async def take(self, calls: Sequence[ToolCall]) -> None:
        """Move the outputs of those of ``calls`` that have none here from Redis to :attr:`outputs`."""
        missing = [call for call in calls if self.outputs.get(call.name, call.arguments) is None]
        try:
            names = {self._name(call): call for call in missing if call.name in self.outputs.defaults}
        except InvalidRequestError:
            return  # a call without a key cannot have an output
        if not names:
            return

        async def take(redis: Any) -> list[Any]:
            async with redis.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.pttl(name)
                    pipe.getdel(name)
                answers: list[Any] = await pipe.execute()
                return answers

        answers = await self.redis.ask(take, _TAKE_TIMEOUT_S) or []
        for (name, call), ttl_ms, stored in zip(names.items(), answers[::2], answers[1::2], strict=False):
            output = self.seal.unseal(name, stored)
            if output is not None and ttl_ms > 0:
                self.outputs.put(
                    call.name, call.arguments, output["output"], ttl_ms / 1000, reusable=output["reusable"]
                )

    def _name(self, call: ToolCall) -> str:
        key = call_key(self.outputs.defaults[call.name], call.name, call.arguments)
        return self.seal.name("output", self.id, key)


def _replacing(
    name: str, fields: Mapping[str, bytes | int], ttl_s: float
) -> Callable[[Any], Awaitable[object]]:
    """Return work that stores ``fields`` under ``name``, in place of what is there, for ``ttl_s`` seconds."""
    values = [value for field in fields.items() for value in field]
    return lambda redis: redis.eval(_REPLACE, 1, name, round(1000 * ttl_s), *values)
