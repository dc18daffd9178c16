"""BackgroundService: requests that are queued, and answered with what is left of the machine."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Self, Unpack
from weakref import WeakKeyDictionary

from agentrt.calls import TextDelta
from agentrt.errors import (
    AgentRTError,
    ConfigurationError,
    ContextStoreError,
    EngineFailedError,
    InvalidRequestError,
    ModelBudgetError,
    ModelLoadError,
    OverloadedError,
    RuntimeClosedError,
)
from agentrt.priority import Priority

from ...contexts.response_chains import StoredResponse
from ...engine.output.generation import Finished, Generation
from ...local.service import LocalRuntime
from ...request.field_names import in_sender_names
from ...request.options import GenerationOptions, Message
from ..model_pool import ModelPool
from ..pooled_model import ModelStatus, PooledModel, find_response
from ..responses.builder import ResponseBuilder, output_of
from ..responses.items import ResponsesRequest
from .conditions import MachineConditions
from .config import BackgroundConfig
from .job import Event, Job, JobStatus
from .job_queue import JobQueue, Outcome
from .job_table import JobTable
from .requests import response_request

LOCAL_APP: Final = "local"
"""The app of requests that name none."""
_AGAIN_S: Final = 2.0
"""Seconds until a job that found no room tries again."""
_SEEDS: Final = 2**31
_STEPS: Final = {"response.created", "response.queued", "response.in_progress"}
"""The events of a response before anything is generated."""
_OF_TEXT: Final = {
    *_STEPS,
    *("response.output_item.added", "response.content_part.added", "response.output_text.delta"),
}
"""The events of a response until its first text has ended."""
_NO_ENGINE: Final = (RuntimeClosedError, EngineFailedError)
"""Errors after which a job waits for the next process."""
_NO_ROOM: Final = (ModelBudgetError, OverloadedError, *_NO_ENGINE)
"""Errors after which a job waits: for other models and requests, or for the next process."""

_log: Final = logging.getLogger(__name__)


def _ignore(model: str, generation: Generation) -> None:
    """Do nothing with an answer."""


class BackgroundService:
    """Background responses of one runtime, or of the models of a pool. For one event loop::

        async with BackgroundService(runtime) as background:
            job = await background.submit([{"role": "user", "content": "Hello!"}], max_tokens=64)
            response = await job.result()

    A job is what ``background`` of OpenAI's responses API makes at ``agentrt serve``, with the same quotas,
    order and conditions, and the same records: where the contexts of a model have a folder, a job that was
    submitted here goes on in the next process, whether that is a server or has such a service, if it has the
    same app. At the end of the block jobs pause. Close the runtime after it.
    """

    def __init__(
        self,
        served: LocalRuntime | ModelPool,
        config: BackgroundConfig | None = None,
        *,
        apps: Sequence[str] = (LOCAL_APP,),
        default_max_tokens: int | None = None,
        on_answer: Callable[[str, Generation], None] = _ignore,
    ) -> None:
        """``apps`` are those that may submit jobs, and whose stored jobs go on.

        ``default_max_tokens`` is for requests without a number, ``on_answer`` is called with the model's name
        and each answer.

        Raises:
            ConfigurationError: there is no app.
        """
        if not apps:
            raise ConfigurationError("apps is empty. Name those that submit background jobs.")
        config = config or BackgroundConfig()
        self.apps = tuple(apps)
        self._pool = served if isinstance(served, ModelPool) else ModelPool.of(served)
        self._default_max_tokens = default_max_tokens
        self._on_answer = on_answer
        stores = {each.name: each.context_store for each in self._pool.models if each.context_store}
        self._bodies = WeakKeyDictionary[Job, dict[str, Any]]()
        """What is shown of jobs without a result, but for their state: a request may be long."""
        self._held = WeakKeyDictionary[Job, list[Event]]()
        """The events of jobs behind those of their first text. They are shown together, at the end: a process
        that goes on with an answer writes its calls again, and nothing that was shown may be taken back."""
        self._block = AsyncExitStack()
        self.queue = JobQueue(
            JobTable(stores), self._run, self._end, config, MachineConditions(config.conditions).obstacle
        )

    async def __aenter__(self) -> Self:
        """Run jobs until the block ends, first those that are stored.

        Raises:
            ConfigurationError: another service of this process runs the stored jobs.
            ContextStoreError: they cannot be read.
        """
        await self._block.enter_async_context(self._running())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Let jobs pause, and store them."""
        await self._block.aclose()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        queue: JobQueue | None = self.queue

        def forget(app: str, context_id: str | None) -> None:  # on the thread that deletes
            if (running := queue) is not None and loop.is_running():
                asyncio.run_coroutine_threadsafe(running.forget(app, context_id), loop)

        for model in self._pool.models:
            model.context_table.on_delete(forget)
        try:
            async with self.queue.running(self.apps):
                yield
        finally:
            queue = None  # the table, which keeps the listener, may live longer

    async def submit(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **options: Unpack[GenerationOptions],
    ) -> BackgroundJob:
        """Queue an answer to ``messages``, and return its job at once; where jobs are stored, it then is.

        ``model`` is the name of one of a pool's, ``metadata`` is shown with the response. ``options`` are
        those of :meth:`LocalRuntime.generate`, but for ``logprobs``, ``logit_bias``, ``prediction``,
        ``deadline_s`` and ``context_id``; the priority is proactive. ``app`` is the first one by default.

        Raises:
            RuntimeClosedError: it is not within the block, or the runtime was closed.
            InvalidRequestError, PromptTooLongError: it is none that can be answered.
            JobQuotaError: the app has too many jobs, or they have run for too long.
            ContextQuotaError, ContextStoreError: it cannot be stored.
        """
        app = options.pop("app", None) or self.apps[0]
        if app not in self.apps:
            raise InvalidRequestError("app", f"{app!r} is none of {self.apps}. Give apps to the service.")
        found, session = self._pool.find(model), options.pop("session", None)
        if found is None:
            raise InvalidRequestError("model", f"there is no model {model!r}. Use the name of a loaded one.")
        request = response_request(messages, options, metadata)
        builder = ResponseBuilder(found.name, request, None, app, session)
        size = len(json.dumps(request.model_dump(mode="json", exclude_none=True)))
        return await self.queue_response(found, builder, request, app, session, size)

    def get(self, id: str, app: str | None = None) -> BackgroundJob | None:
        """Return a job of ``app``, by default the first one; None if it has no such job, or no longer."""
        job = self.queue.table.get(app or self.apps[0], id)
        return None if job is None else BackgroundJob(self, job)

    async def jobs(self, app: str | None = None) -> list[BackgroundJob]:
        """Return the jobs of ``app``, by default the first one; the oldest is the first."""
        await self.queue.sweep()
        return [BackgroundJob(self, job) for job in self.queue.table.of(app or self.apps[0])]

    async def queue_response(
        self,
        model: PooledModel,
        builder: ResponseBuilder,
        request: ResponsesRequest,
        app: str,
        session: str | None,
        request_bytes: int,
    ) -> BackgroundJob:
        """Queue the response of ``builder`` to ``request``, which is ``request_bytes`` long.

        Raises:
            RuntimeClosedError, InvalidRequestError, PromptTooLongError, JobQuotaError, ContextQuotaError,
                ContextStoreError: as for :meth:`submit`.
        """
        options = self._options(request, app)
        with self._pool.hold(model):
            if model.status is ModelStatus.LOADED:  # else it is checked when it runs
                runtime = await self._pool.load(model)
                (await runtime.start(builder.prompt, **options)).cancel()
        stored = {
            "body": await asyncio.to_thread(request.model_dump, mode="json", exclude_none=True),
            "session": session,
            "seed": secrets.randbelow(_SEEDS) if request.seed is None else request.seed,
        }
        job = Job(builder.id, app, model.name, stored, builder.created, request_bytes)
        self._bodies[job] = builder.response(JobStatus.QUEUED)
        job.add([builder.step("created", JobStatus.QUEUED), builder.step("queued", JobStatus.QUEUED)])
        await self.queue.submit(job)
        return BackgroundJob(self, job)

    def body(self, job: Job) -> dict[str, Any]:
        """Return the response of ``job`` as it is now."""
        if job.result is not None:
            return dict(job.result)
        body = self._begun(job, job.status, job.events_after(-1))
        place, now = self.queue.place(job), self.queue.now()
        assert place is not None
        done = None
        if place.done_in_s is not None:
            earliest_s, latest_s = place.done_in_s
            done = {"earliest": now + earliest_s, "latest": now + latest_s}
        obstacle = self.queue.obstacle
        return body | {
            "queue": {
                "position": place.position,
                "position_at_most": place.position_at_most,
                "done_at": done,
                "waits_for": obstacle and {"code": obstacle.reason, "message": obstacle.text},
            }
        }

    def _begun(self, job: Job, status: JobStatus, events: Sequence[Event]) -> dict[str, Any]:
        """Return a response without a result, with what its ``events`` say of its output."""
        if job not in self._bodies:
            self._bodies[job] = self._builder(job).response(JobStatus.QUEUED)
        return self._bodies[job] | {"status": status, "output": output_of(events)}

    def _end(self, job: Job, status: JobStatus) -> tuple[Event, dict[str, Any]]:
        """Return the last event and the response of a job that was cancelled, or failed outside its run.

        OpenAI has no event of its own for the former: it is an incomplete response whose status says more.
        """
        if held := self._held.pop(job, None):
            job.add(held)
        response = self._begun(job, status, job.events)
        for item in response["output"]:
            if item["status"] == JobStatus.IN_PROGRESS:
                item["status"] = JobStatus.INCOMPLETE
        kind = JobStatus.INCOMPLETE
        if status is JobStatus.FAILED:
            kind, response["error"] = status, {"code": "server_error", "message": job.problem}
        return {"type": f"response.{kind}", "response": response}, response

    def _options(self, request: ResponsesRequest, app: str) -> GenerationOptions:
        options = request.options() | {"app": app, "priority": Priority.PROACTIVE}
        if options["max_tokens"] is None:
            options["max_tokens"] = self._default_max_tokens
        return options

    def _builder(self, job: Job, previous: StoredResponse | None = None) -> ResponseBuilder:
        body, session = ResponsesRequest.model_validate(job.request["body"]), job.request["session"]
        return ResponseBuilder(job.model, body, previous, job.app, session, job.id, job.created)

    async def _run(self, job: Job) -> Outcome:
        """Generate the rest of the answer of ``job``, and store the response."""
        while True:
            try:
                body = await self._generate(job)
            except _NO_ROOM as error:
                if isinstance(error, _NO_ENGINE):
                    for each in self.queue.table.all():
                        if each.model == job.model:
                            each.pause(error)
                await asyncio.sleep(_AGAIN_S)
            except _OtherAnswerError:
                begun = sum(1 for _ in takewhile(lambda event: event["type"] in _STEPS, job.events))
                job.take_back(begun, "")
            except Exception as error:
                if not isinstance(error, AgentRTError):
                    raise
                job.add([failure := self._failure(job, error)])
                return JobStatus.FAILED, failure["response"]
            else:
                return JobStatus(body["status"]), body

    def _failure(self, job: Job, error: Exception) -> Event:
        builder = self._builder(job)
        named = in_sender_names(error, lambda name: builder.field_name(name, 0), builder.shorten)
        return builder.failed(_told(named))

    async def _generate(self, job: Job) -> dict[str, Any]:
        """Generate the rest of the answer of ``job``, and return the response, which is then stored.

        What was generated before is predicted, so that it is verified in few passes.

        Raises:
            _OtherAnswerError: the answer does not begin as it did before.
        """
        pool, model = self._pool, self._pool.find(job.model)
        assert model is not None
        stored = await asyncio.to_thread(find_response, pool.models, job.app, job.id)
        if stored is not None:  # the process ended between the two records
            if job.events[-1]["type"] == f"response.{stored[1].body['status']}":
                return dict(stored[1].body)
            _keep_text(job)
            builder = self._builder(job)
            builder.resume(job.text)
            job.add(builder.rest_of(stored[1].body))
            return dict(stored[1].body)
        request = ResponsesRequest.model_validate(job.request["body"])
        builder = self._builder(job, await self._previous(job, request.previous_response_id))
        _keep_text(job)
        builder.resume(sent := job.text)
        options = self._options(request, job.app) | {"seed": job.request["seed"]}
        held = self._held[job] = []
        if sent:
            options["prediction"] = {"type": "content", "content": sent}
        async with AsyncExitStack() as stack:
            stack.enter_context(pool.hold(model))
            runtime = await pool.load(model)
            options |= await builder.begin(runtime, stack)
            job.context_id = options["context_id"]
            stream = await runtime.start(builder.prompt, **options)
            stack.callback(stream.cancel)
            job.paused_by = None
            if not any(event["type"] == "response.in_progress" for event in job.events):
                job.add([builder.step("in_progress")])
            async for event in stream.events():
                if sent:
                    text = event.text if isinstance(event, TextDelta) else ""
                    again = min(len(text), len(sent))
                    if not text or text[:again] != sent[:again]:
                        raise _OtherAnswerError
                    sent, event = sent[again:], TextDelta(text[again:])
                    if len(text) == again:
                        continue
                chunks = list(builder.chunks(0, event))
                if isinstance(event, Finished):
                    del self._held[job]
                    self._on_answer(model.name, event.generation)
                    await asyncio.to_thread(builder.finish, event.generation)
                shown = [] if held else list(takewhile(_is_of_text, chunks))
                held += chunks[len(shown) :]
                if shown:
                    job.add(shown, event.text if isinstance(event, TextDelta) else "")
        job.add(held)
        return builder.response()

    async def _previous(self, job: Job, id: str | None) -> StoredResponse | None:
        if id is None:
            return None
        found = await asyncio.to_thread(find_response, self._pool.models, job.app, id)
        if found is None:
            raise InvalidRequestError(
                "previous_response_id", f"the response {id!r} was deleted. Send the whole conversation."
            )
        return found[1]


@dataclass(frozen=True, eq=False)
class BackgroundJob:
    """One background response of a :class:`BackgroundService`."""

    _service: BackgroundService
    _job: Job

    @property
    def id(self) -> str:
        """The id of the response, by which :meth:`BackgroundService.get` finds it again."""
        return self._job.id

    @property
    def status(self) -> JobStatus:
        """How far it is: queued, in_progress, completed, incomplete, failed or cancelled."""
        return self._job.status

    @property
    def deleted(self) -> bool:
        """Whether the service has it no longer: it was deleted, or has ended a while ago."""
        return self._service.queue.table.get(self._job.app, self.id) is None

    @property
    def response(self) -> dict[str, Any]:
        """The response as ``GET /v1/responses/{id}`` has it now.

        Until it has ended, its field ``queue`` has the position, when it will be done, and what it waits for.
        """
        return self._service.body(self._job)

    def events(self, after: int = -1) -> AsyncGenerator[Event, None]:
        """Yield the events of the responses API whose number is above ``after``, until it has ended.

        Raises:
            RuntimeClosedError, EngineFailedError: as for :meth:`result`.
        """
        return self._service.queue.events(self._job, after)

    async def result(self) -> dict[str, Any]:
        """Wait until it has ended, and return the response; its ``status`` says how.

        Cancelling this leaves the job as it is.

        Raises:
            RuntimeClosedError: the service's block has ended before it, or the runtime was closed. If it is
                stored, the next service goes on with it.
            EngineFailedError: the engine has stopped.
        """
        await self._service.queue.ended(self._job)
        return self.response

    async def cancel(self) -> None:
        """End it, unless it has ended; what there is of the answer stays."""
        await self._service.queue.cancel(self._job)

    async def delete(self) -> None:
        """End it and delete its job; its answer stays a stored response.

        Raises:
            ContextStoreError: it cannot be deleted, and is still there.
        """
        await self._service.queue.remove(self._job)


class _OtherAnswerError(Exception):
    """An answer does not begin as it did before."""


def _told(error: Exception) -> str:
    """Return what those who read a job are told of ``error``: nothing of the machine's files."""
    if isinstance(error, ModelLoadError):
        _log.error("%s", error)
        return f"the model {error.model!r} could not be loaded; the log has the cause. Send it again later."
    if isinstance(error, ContextStoreError):
        _log.error("contexts: %s", error)
        return "contexts could not be read or written; the log has the cause. Send it again later."
    return str(error) if isinstance(error, AgentRTError) else "the server failed. Its log has the cause."


def _keep_text(job: Job) -> None:
    """Take back the events behind the first text of the answer, which earlier versions stored one by one."""
    kept = list(takewhile(_is_of_text, job.events))
    if len(kept) < len(job.events):
        job.take_back(len(kept), "".join(event.get("delta", "") for event in kept))


def _is_of_text(event: Event) -> bool:
    is_call = event.get("item", {}).get("type", "message") != "message"
    return event["type"] in _OF_TEXT and not is_call
