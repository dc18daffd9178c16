"""Submitting predicted calls and speculated results to an endpoint (SpecTools, Algorithm 4)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Self, TypeVar
from weakref import WeakKeyDictionary

from agentrt.adapting import start_in_thread
from agentrt.errors import ConfigurationError
from agentrt.toolcache import FinishedCall, PredictedCall, TakePrediction, TakeResult

from .responses import is_async

T = TypeVar("T")

logger = logging.getLogger("agentrt")

CAPABILITY = "cache-tool-output"
"""Listed by an endpoint with a tool cache among the ``capabilities`` of a model."""

TAKES_PREDICTED_CALLS = "takes_predicted_calls"
"""True in the first event of a stream whose endpoint drafts predicted calls."""

ASKING_SECONDS: Final = 5.0
"""What an endpoint may take for each answer to whether it has a tool cache."""

_MAX_FAILURES = 3
_SENT_TO_THIS_HOST: Final[Any] = {"cast_to": object, "options": {"follow_redirects": False}}
_PROBE: Final[Any] = {
    "cast_to": object,
    "options": {"follow_redirects": False, "timeout": ASKING_SECONDS, "max_retries": 0},
}


class ToolCaches:
    """The endpoints that a client and its copies ask, one for each base URL: none is taken for another."""

    def __init__(self, library: Any, *, forced: bool = False) -> None:
        """No endpoint is known yet. The arguments are those of :class:`ToolCacheEndpoint`."""
        self._create = partial(ToolCacheEndpoint, library, forced=forced)
        self._endpoints: dict[str, ToolCacheEndpoint] = {}

    @classmethod
    def if_wanted(cls, tool_cache: object, library: Any) -> Self | None:
        """Return the endpoints for the setting ``tool_cache``; None if that is False.

        Raises:
            ConfigurationError: ``tool_cache`` is neither a bool nor ``"force"``.
        """
        if tool_cache not in (True, False, "force"):
            raise ConfigurationError(f'tool_cache is {tool_cache!r}. Use True, False or "force".')
        return cls(library, forced=tool_cache == "force") if tool_cache else None

    def of(self, client: Any) -> ToolCacheEndpoint:
        """Return the endpoint at the client's base URL."""
        return self._endpoints.setdefault(str(client.base_url), self._create())


class ToolCacheEndpoint:
    """One endpoint. When there is a first result it is asked whether it takes results, and in which form.

    It takes them if its list of models names the capability. If that lists no capabilities, or cannot be
    read, the endpoint is sent an empty list by the paper's route, for the response that is being streamed. It
    has the paper's API if it answers that it cached nothing: no tool output goes to one that has not said so.
    One that is busy or cannot be reached is asked again with the next result, three times at most. A *forced*
    one is not asked: it counts as having the paper's API. After three refusals in a row an endpoint with the
    paper's API is sent nothing more.
    """

    def __init__(self, library: Any, *, forced: bool = False) -> None:
        """Create the endpoint. ``library`` is the package of its clients."""
        self._library = library
        self._has_cache: bool | None = True if forced else None
        self._has_own_fields = False
        self._base = ""
        self._failures = 0
        self._lock = threading.Lock()
        self._locks = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()

    @property
    def may_have_cache(self) -> bool:
        """Whether it has a tool cache, or has not been asked yet."""
        return self._has_cache is not False

    def submitter(self, client: Any, response_id: str) -> TakeResult:
        """Return a function that submits a result for a response that is being streamed.

        An error of the submission goes to :attr:`FinishedCall.refused`, and nowhere else.
        With an async client, this method must be called on the client's event loop.
        """
        submit = _in_background(
            client, partial(self._submit, client, response_id), partial(self._asubmit, client, response_id)
        )

        def take(result: FinishedCall) -> None:
            if self.may_have_cache and result.keep_alive_s > 0:
                submit(result)

        return take

    def _submit(self, client: Any, response_id: str, result: FinishedCall) -> None:
        with self._lock, self._noting_outage():
            if self._has_cache is None:
                self._ask(client, response_id)
        if self._has_cache:
            with self._noting_refusal(result):
                path = self._base + _path(response_id)
                client.post(path, body=[self._entry(result)], **_SENT_TO_THIS_HOST)

    async def _asubmit(self, client: Any, response_id: str, result: FinishedCall) -> None:
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            with self._noting_outage():
                if self._has_cache is None:
                    await self._aask(client, response_id)
        if self._has_cache:
            with self._noting_refusal(result):
                path = self._base + _path(response_id)
                await client.post(path, body=[self._entry(result)], **_SENT_TO_THIS_HOST)

    def _ask(self, client: Any, response_id: str) -> None:
        named = None
        with self._ignoring_refusal():
            named = _names_capability(list(client.models.list(timeout=ASKING_SECONDS)))
        for base in _bases(client) if named is None else ():
            with self._ignoring_refusal():
                if _has_cached_nothing(client.post(base + _path(response_id), body=[], **_PROBE)):
                    self._base, self._has_cache = base, True
                    return
        self._has_cache = self._has_own_fields = bool(named)

    async def _aask(self, client: Any, response_id: str) -> None:
        named = None
        with self._ignoring_refusal():
            models = client.models.list(timeout=ASKING_SECONDS)
            named = _names_capability([model async for model in models])
        for base in _bases(client) if named is None else ():
            with self._ignoring_refusal():
                if _has_cached_nothing(await client.post(base + _path(response_id), body=[], **_PROBE)):
                    self._base, self._has_cache = base, True
                    return
        self._has_cache = self._has_own_fields = bool(named)

    def _entry(self, result: FinishedCall) -> dict[str, Any]:
        """Return a result in the paper's format.

        The field ``reusable`` is agentrt's own: without it an entry answers any number of equal calls, but a
        client that makes the calls itself runs the tool for each. Other endpoints may refuse other fields.
        """
        call = result.call
        entry = {"name": call.name, "params": dict(call.arguments), "output": result.text}
        own = {"reusable": False} if self._has_own_fields else {}
        return {**entry, "keep_alive": round(result.keep_alive_s, 3), **own}

    @contextmanager
    def _noting_outage(self) -> Iterator[None]:
        """Count an error of a question as an outage; with the third one there is no cache."""
        try:
            yield
        except Exception:  # noqa: BLE001 - it is no error of the turn
            self._failures += 1
            if self._failures == _MAX_FAILURES:
                self._has_cache = False

    @contextmanager
    def _ignoring_refusal(self) -> Iterator[None]:
        """Let only errors through after which it is worth asking again."""
        try:
            yield
        except Exception as error:
            if self._is_transient(error):
                raise

    @contextmanager
    def _noting_refusal(self, result: FinishedCall) -> Iterator[None]:
        try:
            yield
            self._failures = 0
        except Exception as error:  # noqa: BLE001 - reported: it is no error of the turn
            is_refusal = isinstance(error, self._library.APIError) and not self._is_transient(error)
            if is_refusal and not self._has_own_fields:
                self._count_refusal(error)
            result.refused(error)

    def _is_transient(self, error: Exception) -> bool:
        """Whether it is busy or cannot be reached: the classes of a status differ between clients."""
        status = getattr(error, "status_code", 0)
        return isinstance(error, self._library.APIConnectionError) or status == 429 or status >= 500

    def _count_refusal(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == _MAX_FAILURES:
            self._has_cache = False
            logger.warning(
                "the endpoint has refused %d tool outputs (%s) and is sent no more. Correct its route POST "
                "/cache-tool-output/{response_id}, or leave tool_cache out.",
                _MAX_FAILURES,
                type(error).__name__,
            )


def prediction_submitter(client: Any, response_id: str) -> TakePrediction:
    """Return a function that submits a predicted call for a response that is being streamed.

    An error of the submission goes to :attr:`PredictedCall.refused`, and nowhere else.
    With an async client, this function must be called on the client's event loop.
    """

    def body(predicted: PredictedCall) -> list[dict[str, Any]]:
        return [{"name": predicted.call.name, "params": dict(predicted.call.arguments)}]

    def submit(predicted: PredictedCall) -> None:
        with _reporting(predicted):
            client.post(_path(response_id), body=body(predicted), **_SENT_TO_THIS_HOST)

    async def asubmit(predicted: PredictedCall) -> None:
        with _reporting(predicted):
            await client.post(_path(response_id), body=body(predicted), **_SENT_TO_THIS_HOST)

    return _in_background(client, submit, asubmit)


@contextmanager
def _reporting(predicted: PredictedCall) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - reported: it is no error of the turn
        predicted.refused(error)


def _in_background(
    client: Any, submit: Callable[[T], object], asubmit: Callable[[T], Coroutine[Any, Any, None]]
) -> Callable[[T], None]:
    """Return a function that begins a submission in a task, or in a thread, and does not wait for it."""
    if not is_async(client):

        def begin_thread(each: T) -> None:
            start_in_thread(lambda: submit(each), name="agentrt tool cache")

        return begin_thread
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def start(each: T) -> None:
        task = asyncio.create_task(asubmit(each))
        tasks.add(task)  # the loop keeps weak references only
        task.add_done_callback(tasks.discard)

    def begin(each: T) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(start, each)

    return begin


def _names_capability(models: list[Any]) -> bool | None:
    """Return whether a model has the capability; None where capabilities are not listed at all."""
    listed = [
        model.capabilities for model in models if isinstance(getattr(model, "capabilities", None), list)
    ]
    return any(CAPABILITY in each for each in listed) if listed else None


def _has_cached_nothing(answer: Any) -> bool:
    return isinstance(answer, Mapping) and answer.get("cached") == 0 and answer["cached"] is not False


def _bases(client: Any) -> list[str]:
    """Return what the paper's path may follow: the base URL and, if that is OpenAI's, the host's root."""
    url = client.base_url
    return ["", str(url.copy_with(path="", query=None))] if url.path == "/v1/" else [""]


def _path(response_id: str) -> str:
    return f"/cache-tool-output/{response_id}"
