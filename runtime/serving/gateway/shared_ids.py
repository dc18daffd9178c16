"""The ids of what apps have stored at the engine, which replicas of one gateway share in Redis or Valkey."""

from __future__ import annotations

import time
from typing import Any, Final

from ..http.identity import Tokens
from .app_seal import AppSeal
from .bounded_redis import BoundedRedis
from .stored_ids import MAX_IDS

_ADD_TIMEOUT_S: Final = 0.01
"""An answer waits this long for Redis, which then goes on to store the id."""
_LOOK_UP_TIMEOUT_S: Final = 0.25
"""A request waits this long whose id is unknown here."""
_KEPT_S: Final = 30 * 86_400
"""After the last new id of an app. OpenAI keeps responses for 30 days."""


class SharedIds:
    """The ids of each app: of each kind those that it used last.

    If Redis fails or is late, an id is unknown.
    """

    def __init__(self, redis: BoundedRedis, tokens: Tokens) -> None:
        """All replicas have the same ``tokens``: with others, the ids of an app are not found."""
        self._redis = redis
        self._tokens = tokens

    async def add(self, app: str, kind: str, id: str) -> None:
        """Make ``id`` one of ``app``."""
        key, member = self._names(app, kind, id)

        async def add(redis: Any) -> object:
            async with redis.pipeline(transaction=False) as pipe:
                pipe.zadd(key, {member: time.time()})
                pipe.zremrangebyrank(key, 0, -MAX_IDS - 1)
                pipe.expire(key, _KEPT_S)
                return await pipe.execute()

        await self._redis.ask(add, _ADD_TIMEOUT_S)

    async def use(self, app: str, kind: str, id: str) -> bool:
        """Return whether ``id`` is one of ``app``, which it then has used last."""
        key, member = self._names(app, kind, id)

        async def look_up(redis: Any) -> bool:
            async with redis.pipeline(transaction=False) as pipe:
                pipe.zadd(key, {member: time.time()}, xx=True)
                pipe.zscore(key, member)
                _, score = await pipe.execute()
                return score is not None

        return bool(await self._redis.ask(look_up, _LOOK_UP_TIMEOUT_S))

    def _names(self, app: str, kind: str, id: str) -> tuple[str, str]:
        """Return the name of the app's ids of this kind, and that of ``id`` among them.

        Only who knows the app's tokens can make them.
        """
        seal = AppSeal(app, self._tokens.secret_of(app))
        return seal.name("ids", kind), seal.name("id", kind, id)
