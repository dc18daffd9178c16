"""The ids of what each app has stored at an engine that sees all apps as one client, also in Redis."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Final

from ..http.identity import Tokens
from .bounded_redis import AppSeal, BoundedRedis

MAX_IDS: Final = 10_000
"""Of each kind, for each app."""
_MAX_CHARACTERS: Final = 256


_ADD_TIMEOUT_S: Final = 0.01
"""An answer waits this long for Redis, which then goes on to store the id."""
_LOOK_UP_TIMEOUT_S: Final = 0.25
"""A request waits this long whose id is unknown here."""
_KEPT_S: Final = 30 * 86_400
"""After the last new id of an app. OpenAI keeps responses for 30 days."""


class StoredIds:
    """The ids of each app, for as long as the process runs: of an app's those that it used last."""

    def __init__(self, limit: int = MAX_IDS) -> None:
        """An app has at most ``limit`` ids."""
        self._limit = limit
        self._of_apps: dict[str, OrderedDict[str, None]] = {}

    def add(self, app: str, id: str) -> bool:
        """Make ``id`` one of ``app``; return False if it is too long, or that of an app already."""
        if len(id) > _MAX_CHARACTERS or any(id in ids for ids in self._of_apps.values()):
            return False
        ids = self._of_apps.setdefault(app, OrderedDict())
        ids[id] = None
        if len(ids) > self._limit:
            ids.popitem(last=False)
        return True

    def use(self, app: str, id: str) -> bool:
        """Return whether ``id`` is one of ``app``, which it then has used last."""
        ids = self._of_apps.get(app)
        if ids is None or id not in ids:
            return False
        ids.move_to_end(id)
        return True


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
