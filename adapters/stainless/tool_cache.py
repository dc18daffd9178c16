"""Submitting predicted calls and speculated results to an endpoint (SpecTools, Algorithm 4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self, TypeVar

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

_MAX_FAILURES = 3


class ToolCacheEndpoint:
    """The endpoint of one client.

    If its list of models cannot be read it counts as an endpoint without a tool cache: at once if it refuses,
    after three attempts if it is busy or cannot be reached. A *forced* one counts as having the paper's API;
    its list of models is not read, and after three refusals in a row it is sent nothing more.
    """

    def __init__(self, library: Any, *, forced: bool = False) -> None:
        """Create the endpoint; unless it is forced, its models are listed when there is a first result.

        ``library`` is the package of its clients.
        """
        self._library = library
        self._forced = forced
        self._has_cache: bool | None = True if forced else None
        self._failures = 0

    @classmethod
    def if_wanted(cls, tool_cache: object, library: Any) -> Self | None:
        """Return an endpoint for the setting ``tool_cache``; None if that is False.

        Raises:
            ConfigurationError: ``tool_cache`` is neither a bool nor ``"force"``.
        """
        if tool_cache not in (True, False, "force"):
            raise ConfigurationError(f'tool_cache is {tool_cache!r}. Use True, False or "force".')
        return cls(library, forced=tool_cache == "force") if tool_cache else None

    @property
    def may_have_cache(self) -> bool:
        """Whether it has a tool cache, or its list of models has not been read yet."""
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
        with self._noting_unlisted_models():
            if self._has_cache is None:
                self._has_cache = _names_capability(list(client.models.list()))
        if self._has_cache:
            with self._noting_refusal(result):
                client.post(_path(response_id), cast_to=object, body=[self._entry(result)])

    async def _asubmit(self, client: Any, response_id: str, result: FinishedCall) -> None:
        with self._noting_unlisted_models():
            if self._has_cache is None:
                self._has_cache = _names_capability([model async for model in client.models.list()])
        if self._has_cache:
            with self._noting_refusal(result):
                await client.post(_path(response_id), cast_to=object, body=[self._entry(result)])

    def _entry(self, result: FinishedCall) -> dict[str, Any]:
        """Return a result in the paper's format.

        The field ``reusable`` is agentrt's own: without it an entry answers any number of equal calls, but a
        client that makes the calls itself runs the tool for each. A forced endpoint may refuse other fields.
        """
        call = result.call
        entry = {"name": call.name, "params": dict(call.arguments), "output": result.text}
        own = {} if self._forced else {"reusable": False}
        return {**entry, "keep_alive": round(result.keep_alive_s, 3), **own}

    @contextmanager
    def _noting_unlisted_models(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - an endpoint whose models cannot be read has no cache
            self._failures += 1
            if not self._is_transient(error) or self._failures == _MAX_FAILURES:
                self._has_cache = self._has_cache or False  # another submission may have read them

    @contextmanager
    def _noting_refusal(self, result: FinishedCall) -> Iterator[None]:
        try:
            yield
            self._failures = 0
        except Exception as error:  # noqa: BLE001 - reported: it is no error of the turn
            if self._forced and isinstance(error, self._library.APIError) and not self._is_transient(error):
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
                "the endpoint has refused %d tool outputs (%s) and is sent no more. Use tool_cache='force' "
                "only for one that has POST /cache-tool-output/{response_id}.",
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
            client.post(_path(response_id), cast_to=object, body=body(predicted))

    async def asubmit(predicted: PredictedCall) -> None:
        with _reporting(predicted):
            await client.post(_path(response_id), cast_to=object, body=body(predicted))

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


def _names_capability(models: list[Any]) -> bool:
    return any(CAPABILITY in (getattr(model, "capabilities", None) or ()) for model in models)


def _path(response_id: str) -> str:
    return f"/cache-tool-output/{response_id}"
