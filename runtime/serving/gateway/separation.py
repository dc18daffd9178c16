"""An engine that sees several apps as one client: what they may send it, and whose it is that it stores."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import httpx

from ..http.errors import ApiError
from ..http.identity import Tokens
from ..http.strict_json import compact_json, parse_body
from .bounded_redis import AppSeal, BoundedRedis
from .sse import EventSplitter, LoopTurns, UnreadableEventError, event_data, parse_engine_json
from .upstream import is_event_stream

MAX_IDS: Final = 10_000
"""Of each kind, for each app."""
_MAX_CHARACTERS: Final = 256
_ADD_TIMEOUT_S: Final = 0.01
"""An answer waits this long for Redis, which then goes on to store the id."""
_LOOK_UP_TIMEOUT_S: Final = 0.25
"""A request waits this long whose id is unknown here."""
_KEPT_S: Final = 30 * 86_400
"""After the last new id of an app. OpenAI keeps responses for 30 days."""

_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "message": ("content",),
    "function_call": ("arguments",),
    "function_call_output": ("output",),
    "custom_tool_call": ("input",),
    "custom_tool_call_output": ("output",),
    "local_shell_call": ("action",),
    "local_shell_call_output": ("output",),
    "shell_call": ("action",),
    "shell_call_output": ("output",),
    "apply_patch_call": ("operation",),
    "apply_patch_call_output": ("status",),
    "reasoning": ("content", "encrypted_content"),
    "compaction": ("encrypted_content",),
}
"""Where an item of each type has its content. An engine looks up the id of an item without it."""
_LOOKED_UP_IF_EMPTY: Final = ("reasoning", "compaction")
_CLIENTS_TOOLS: Final = ("function", "custom")
_NAMES: Final = frozenset(
    {"container", "container_id", "conversation", "environment", "input", "previous_response_id",
     "request_id", "tools", "type"}
).union(*_CONTENT.values())  # fmt: skip
_MAX_BYTES: Final = 8 * 2**20
_log: Final = logging.getLogger(__name__)
Note = Callable[[str], Awaitable[None]]
_STORES_NOTHING: Final = {
    "GET": frozenset(
        b"/api/tags /api/version /health /metrics /openapi.json /ping /v1/models /version".split(),
    ),
    "POST": frozenset(
        b"/api/chat /api/embed /api/embeddings /api/generate /api/show /apply-template /classify /completion "
        b"/detokenize /generate /infill /pooling /rerank /score /tokenize /v1/audio/speech "
        b"/v1/audio/transcriptions /v1/audio/translations /v1/chat/completions /v1/chat/completions/batch "
        b"/v1/completions /v1/embeddings /v1/images/edits /v1/images/generations /v1/messages "
        b"/v1/messages/count_tokens /v1/moderations /v1/rerank /v1/score /v2/embed /v2/rerank".split()
    ),
}
_MODEL: Final = b"/v1/models/"
_MAKES: Final = {b"/v1/contexts": "context", b"/v1/responses": "response"}
_ID: Final = rb"(?P<id>[A-Za-z0-9._~=+:-]+)"
_BY_ID: Final = {
    ("GET", "response"): re.compile(rb"/v1/responses/%b(/input_items)?" % _ID),
    ("POST", "response"): re.compile(rb"/v1/responses/%b/cancel" % _ID),
    ("DELETE", "response"): re.compile(rb"/v1/responses/%b" % _ID),
    ("GET", "context"): re.compile(rb"/v1/contexts/%b" % _ID),
    ("POST", "context"): re.compile(rb"/v1/contexts/%b/chat/completions" % _ID),
    ("DELETE", "context"): re.compile(rb"/v1/contexts/%b" % _ID),
}


def _previous_response(fields: Mapping[str, Any]) -> str | None:
    """Return the id of the response that a request with these fields continues; None if it continues none.

    Raises:
        ApiError: 400, there can be no such response, or a field's name is not in lower case; 403, a field
            names something else that may be another app's.
    """
    _check_names(fields)
    for name in ("conversation", "request_id"):
        if fields.get(name) is not None:
            raise _inseparable(f"{name}: it may name", "Leave it out, or give", name)
    for index, item in enumerate(_list(fields.get("input"))):
        if isinstance(item, dict) and not _has_its_content(item):
            field = f"input[{index}]"
            raise _inseparable(f"{field}: its id may name", "Send the item's content, or give", field)
    for index, tool in enumerate(_list(fields.get("tools"))):
        if isinstance(tool, dict) and _names_container(tool):
            field = f"tools[{index}]"
            raise _inseparable(f"{field}: its container may be", "Name none, or give", field)
    previous = fields.get("previous_response_id")
    if not isinstance(previous, str | None):
        raise _previous_not_found()
    return previous


def _previous_not_found() -> ApiError:
    return ApiError(
        400,
        "previous_response_id: there is no such response, or this gateway knows it no longer. Send the whole "
        "conversation.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _inseparable(problem: str, advice: str, param: str | None = None) -> ApiError:
    return ApiError(
        403,
        f"{problem} what another app has stored, since the engine sees all apps of this gateway as one "
        f"client. {advice} each app a gateway of its own, with an --upstream-key-file of its own.",
        param=param,
        code="apps_share_engine_key",
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check_names(fields: Mapping[str, Any]) -> None:
    """Refuse names that some engines take for a checked one: those written in Go ignore the case."""
    for name in fields:
        if name not in _NAMES and name.casefold() in _NAMES:
            raise ApiError(
                400, f"there is no field {name!r}. Write it in lower case.", param=name, code="invalid_value"
            )


def _has_its_content(item: Mapping[str, Any]) -> bool:
    """Whether an item of the input needs nothing that is stored at the engine."""
    _check_names(item)
    kind = item.get("type") or "message"
    names = _CONTENT.get(kind, ()) if isinstance(kind, str) else ()
    if kind in _LOOKED_UP_IF_EMPTY:
        return any(item.get(name) for name in names)
    return any(item.get(name) is not None for name in names)


def _names_container(tool: Mapping[str, Any]) -> bool:
    """Whether a tool that the engine runs names the container in which it runs."""
    _check_names(tool)
    if tool.get("type") in _CLIENTS_TOOLS:
        return False
    environment = tool.get("environment")
    if isinstance(environment, dict):
        _check_names(environment)
        return environment.get("container_id") is not None
    return isinstance(tool.get("container"), str)


async def noting_id(pieces: AsyncIterable[bytes], note: Note) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a JSON object unchanged; await ``note`` of its ``id`` before the last one."""
    body, held = bytearray(), b""
    async for piece in pieces:
        if held:
            yield held
        held = piece
        if len(body) <= _MAX_BYTES:
            body += piece
    await _note(note, _parse(bytes(body)) if len(body) <= _MAX_BYTES else None)
    yield held


async def noting_event_id(pieces: AsyncIterable[bytes], note: Note) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a stream unchanged; await ``note`` before the end of the event with a response."""
    splitter, turns, looking = EventSplitter(), LoopTurns(), True
    async for piece in pieces:
        if looking and (response := await _first_response(splitter, turns, piece)) is not None:
            looking = False
            await _note(note, response)
        yield piece


async def _first_response(splitter: EventSplitter, turns: LoopTurns, piece: bytes) -> Any:
    """Return the response of an event that ends in ``piece``, an empty one if none can be read; else None."""
    try:
        for event in splitter.feed(piece):
            body = _parse(event_data(event))
            if isinstance(body, dict) and "response" in body:
                return body["response"] or {}
            await turns.handled(len(event))
    except UnreadableEventError:
        return {}
    return None


async def _note(note: Note, body: Any) -> None:
    if isinstance(body, dict) and isinstance(id := body.get("id"), str):
        await note(id)
    else:
        _log.warning("an engine's answer has no id that can be read: what it has stored reaches no app")


def _parse(data: bytes) -> Any:
    try:
        return parse_engine_json(data) if data else None
    except ValueError:
        return None


class StoredIds:
    """The ids of what each app has stored at the engine, also in Redis: of each kind those that it used last.

    If Redis fails or is late, the ids that passed other replicas are unknown.
    """

    def __init__(self, redis: BoundedRedis | None, tokens: Tokens) -> None:
        """No app has made anything yet; ``redis`` has what was made through other replicas."""
        self._redis = redis
        self._tokens = tokens
        self._ids = {kind: defaultdict[str, OrderedDict[str, None]](OrderedDict) for kind in _MAKES.values()}
        """By kind and app."""

    async def add(self, app: str, kind: str, id: str) -> None:
        """Make ``id`` one of ``app``, unless it is too long or that of an app already."""
        if not self._keep(app, kind, id) or self._redis is None:
            return
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
        ids = self._ids[kind][app]
        if id in ids:
            ids.move_to_end(id)
            return True
        if self._redis is None:
            return False
        key, member = self._names(app, kind, id)

        async def look_up(redis: Any) -> bool:
            async with redis.pipeline(transaction=False) as pipe:
                pipe.zadd(key, {member: time.time()}, xx=True)
                pipe.zscore(key, member)
                _, score = await pipe.execute()
                return score is not None

        found = await self._redis.ask(look_up, _LOOK_UP_TIMEOUT_S)
        return bool(found) and self._keep(app, kind, id)

    def _keep(self, app: str, kind: str, id: str) -> bool:
        of_apps = self._ids[kind]
        if len(id) > _MAX_CHARACTERS or any(id in ids for ids in of_apps.values()):
            return False
        of_apps[app][id] = None
        if len(of_apps[app]) > MAX_IDS:
            of_apps[app].popitem(last=False)
        return True

    def _names(self, app: str, kind: str, id: str) -> tuple[str, str]:
        """Return the name of the app's ids of this kind, and that of ``id`` among them.

        Only who knows the app's tokens can make them.
        """
        seal = AppSeal(app, self._tokens)
        return seal.name("ids", kind), seal.name("id", kind, id)


class Separation:
    """What apps may send to such an engine, and whose the responses and contexts are that it stores.

    Relayed are routes of which it is known that they store nothing, or how to tell apart what they store. By
    any other an app could list, read or delete what another one has stored. For one event loop.
    """

    def __init__(self, ids: StoredIds) -> None:
        """``ids`` are those of the responses and contexts that each app has made."""
        self._ids = ids

    def makes(self, method: str, path: bytes) -> bool:
        """Return whether the answer to such a request has the id of what was stored."""
        return method == "POST" and path in _MAKES

    async def permit(self, app: str, method: str, path: bytes, body: bytes) -> bytes:
        """Return the body to send for a request of ``app``; if it has been checked, as it was read.

        Raises:
            ApiError: 403, it is not known what such requests store, or how to tell it apart; 404, ``app`` has
                made nothing with this id, 400 for one to continue; 400, 403 or 413, its body is refused.
        """
        if method == "HEAD":
            method = "GET"
        if path in _STORES_NOTHING.get(method, ()) or (method == "GET" and path.startswith(_MODEL)):
            return body
        if self.makes(method, path):
            return await self._checked(app, body) if _MAKES[path] == "response" else body
        for (allowed, kind), pattern in _BY_ID.items():
            if method == allowed and (found := pattern.fullmatch(path)):
                if not await self._ids.use(app, kind, found["id"].decode()):
                    raise _not_found(kind)
                return body
        raise _inseparable(f"{method} {path.decode('ascii', 'replace')}: it may show or change", "Give")

    def noting(
        self, app: str, path: bytes, response: httpx.Response, pieces: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the ``pieces`` of an answer that :meth:`makes` something; its id becomes one of ``app``."""
        if not response.is_success:
            return pieces
        note = partial(self._ids.add, app, _MAKES[path])
        return noting_event_id(pieces, note) if is_event_stream(response) else noting_id(pieces, note)

    async def _checked(self, app: str, body: bytes) -> bytes:
        fields = parse_body(body)
        if isinstance(fields, dict):
            previous = _previous_response(fields)
            if previous is not None and not await self._ids.use(app, "response", previous):
                raise _previous_not_found()
        # Of a name that is there twice, the engine could take the other value.
        return compact_json(fields).encode()


def _not_found(kind: str) -> ApiError:
    return ApiError(
        404,
        f"there is no such {kind}, or this gateway knows it no longer. Make a new one.",
        param=f"{kind}_id",
        code=f"{kind}_not_found",
    )
