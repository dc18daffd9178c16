"""Background responses: queued, run with what is left of the machine, shown, streamed again and cancelled."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from itertools import takewhile
from typing import Annotated, Any, Final, cast
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from agentrt.calls import TextDelta
from agentrt.errors import (
    EngineFailedError,
    InvalidRequestError,
    JobQuotaError,
    ModelBudgetError,
    OverloadedError,
    RuntimeClosedError,
)
from agentrt.priority import Priority

from ...contexts.response_chains import StoredResponse
from ...engine.output.generation import Finished
from ...pool.pooled_model import ModelStatus, find_response
from ...request.field_names import in_sender_names, sender_names
from ...request.options import GenerationOptions
from ..background.conditions import MachineConditions
from ..background.config import BackgroundConfig
from ..background.job import Event, Job, JobStatus
from ..background.job_queue import JobQueue, Outcome
from ..background.job_table import JobTable
from ..http.errors import ApiError, to_api_error
from ..http.identity import LOCAL_APP, METRICS_READER, peer_app
from ..http.request_state import app_of, priority_headers
from ..http.streaming import ClosingStreamingResponse
from ..http.strict_json import StrictJsonRoute, large_json_response
from .answers import bound_answers
from .paging import PageBody, PageQuery, page_of
from .response_items import ResponsesRequest
from .response_writer import ResponseWriter, output_of
from .server_state import ServerConfig, ServerState

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
_QUOTAS: Final = {
    "jobs_per_app": "job_quota_exceeded",
    "bytes_per_app": "job_bytes_quota_exceeded",
    "seconds_per_app": "job_seconds_quota_exceeded",
}
"""The code of the error for each limit."""
_NO_ROOM: Final = (ModelBudgetError, OverloadedError, RuntimeClosedError, EngineFailedError)
"""Errors after which a job waits: for other models and requests, or for the next process."""

router = APIRouter(route_class=StrictJsonRoute)


class ResponseList(PageBody[dict[str, Any]]):
    """Background responses."""


class BackgroundResponses:
    """The background responses of one server. For one event loop."""

    def __init__(self, state: ServerState, config: BackgroundConfig) -> None:
        """Those of ``state``'s models whose contexts have a folder survive the process."""
        stores = {each.name: each.context_store for each in state.pool.models if each.context_store}
        self._state = state
        self._bodies = WeakKeyDictionary[Job, dict[str, Any]]()
        """What is shown of jobs without a result, but for their state: a request may be long."""
        self.queue = JobQueue(
            JobTable(stores), self._run, self._end, config, MachineConditions(config.conditions).obstacle
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run background responses within the block."""
        loop = asyncio.get_running_loop()

        def forget(app: str, context_id: str | None) -> None:  # on the thread that deletes
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(self.queue.forget(app, context_id), loop)

        for model in self._state.pool.models:
            model.context_table.on_delete(forget)
        async with self.queue.running(_apps(self._state.config)):
            yield

    def find(self, app: str, id: str) -> Job | None:
        """Return the job of a background response; None if ``app`` has no such response, or no longer."""
        return self.queue.table.get(app, id)

    async def submit(
        self,
        body: ResponsesRequest,
        writer: ResponseWriter,
        options: GenerationOptions,
        app: str,
        session: str | None,
        request_bytes: int,
    ) -> Response:
        """Queue the response of ``writer``, and return it as it is then, or its stream.

        ``request_bytes`` is how large the body of the request was.

        Raises:
            InvalidRequestError, PromptTooLongError: it is none that can be answered.
            ApiError: 429, the app has too many.
        """
        model = self._state.model(body.model)
        if not body.is_stored:
            raise InvalidRequestError("store", "a background response is stored. Leave store out.")
        if body.wants_logprobs:
            raise InvalidRequestError("include", "a background response has no logprobs. Leave them out.")
        if body.named_priority is Priority.REACTIVE:
            raise InvalidRequestError(
                "service_tier", "a background response is proactive. Leave its priority out."
            )
        with sender_names(lambda field: writer.field_name(field, 0), writer.shorten):
            bound_answers(options, self._state.config.default_max_tokens)
            with self._state.pool.hold(model):
                if model.status is ModelStatus.LOADED:  # else it is checked when it runs
                    runtime = await self._state.pool.load(model)
                    options["priority"] = Priority.PROACTIVE
                    (await runtime.start(writer.prompt, **options)).cancel()
        request = {
            "body": await asyncio.to_thread(body.model_dump, mode="json", exclude_none=True),
            "session": session,
            "seed": secrets.randbelow(_SEEDS) if body.seed is None else body.seed,
        }
        job = Job(writer.id, app, model.name, request, writer.created, request_bytes)
        self._bodies[job] = writer.response(JobStatus.QUEUED)
        job.add([writer.step("created", JobStatus.QUEUED), writer.step("queued", JobStatus.QUEUED)])
        try:
            await self.queue.submit(job)
        except JobQuotaError as error:
            raise ApiError(
                *(429, str(error)),
                code=_QUOTAS[error.quota],
                kind="insufficient_quota",
                headers={"x-should-retry": "false"},
            ) from error
        return await self.show(job, -1 if body.stream else None)

    async def show(self, job: Job, after: int | None = None) -> Response:
        """Return a background response, or its events whose number is above ``after``."""
        headers = priority_headers(Priority.PROACTIVE)
        if after is None:
            body = self.body(job)
            return await large_json_response(lambda: body, headers)
        writer = self._writer(job)
        return ClosingStreamingResponse(
            self._encoded(writer, job, after),
            media_type=writer.media_type,
            headers={"cache-control": "no-store", **headers},
        )

    async def _encoded(self, writer: ResponseWriter, job: Job, after: int) -> AsyncGenerator[str, None]:
        async for event in self.queue.events(job, after):
            yield await writer.encode(event)

    def body(self, job: Job) -> dict[str, Any]:
        """Return a background response as it is now."""
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
            self._bodies[job] = self._writer(job).response(JobStatus.QUEUED)
        return self._bodies[job] | {"status": status, "output": output_of(events)}

    def _end(self, job: Job, status: JobStatus) -> tuple[Event, dict[str, Any]]:
        """Return the last event and the response of a job that was cancelled, or failed outside its run.

        OpenAI has no event of its own for the former: it is an incomplete response whose status says more.
        """
        response = self._begun(job, status, job.events)
        for item in response["output"]:
            if item["status"] == JobStatus.IN_PROGRESS:
                item["status"] = JobStatus.INCOMPLETE
        kind = JobStatus.INCOMPLETE
        if status is JobStatus.FAILED:
            kind, response["error"] = status, {"code": "server_error", "message": job.problem}
        return {"type": f"response.{kind}", "response": response}, response

    def check_not_continued(self, app: str, id: str) -> None:
        """Check that no background response of ``app`` waits to continue the response ``id``.

        Raises:
            ApiError: 409, one does.
        """
        for job in self.queue.table.of(app):
            if not job.status.ended and job.request["body"].get("previous_response_id") == id:
                raise ApiError(
                    409,
                    f"the background response {job.id!r} continues it. Cancel that one, or wait for its end.",
                    param="response_id",
                    code="context_busy",
                    headers={"x-should-retry": "false"},
                )

    async def cancel(self, app: str, id: str) -> Job:
        """End a background response, unless it has ended, and return it.

        Raises:
            ApiError: ``app`` has no such response, or no longer.
        """
        if (job := self.find(app, id)) is None:
            raise ApiError(
                404,
                f"there is no background response {id!r}. Use the id of one created with background.",
                param="response_id",
                code="response_not_found",
            )
        await self.queue.cancel(job)
        return job

    async def remove(self, app: str, id: str) -> bool:
        """End a background response and delete its job; False if ``app`` has no such response."""
        if (job := self.find(app, id)) is None:
            return False
        await self.queue.remove(job)
        return True

    def _writer(self, job: Job, previous: StoredResponse | None = None) -> ResponseWriter:
        body, session = ResponsesRequest.model_validate(job.request["body"]), job.request["session"]
        return ResponseWriter(job.model, body, previous, job.app, session, job.id, job.created)

    async def _run(self, job: Job) -> Outcome:
        """Generate the rest of the answer of ``job``, and store the response."""
        while True:
            try:
                body = await self._generate(job)
            except _NO_ROOM:
                await asyncio.sleep(_AGAIN_S)
            except _OtherAnswerError:
                begun = sum(1 for _ in takewhile(lambda event: event["type"] in _STEPS, job.events))
                job.take_back(begun, "")
            except Exception as error:
                known, failure = self._failure(job, error)
                if known.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
                job.add([failure])
                return JobStatus.FAILED, failure["response"]
            else:
                return JobStatus(body["status"]), body

    def _failure(self, job: Job, error: Exception) -> tuple[ApiError, Event]:
        writer = self._writer(job)
        known = to_api_error(in_sender_names(error, lambda name: writer.field_name(name, 0), writer.shorten))
        return known, writer.failure(known)

    async def _generate(self, job: Job) -> dict[str, Any]:
        """Generate the rest of the answer of ``job``, and return the response, which is then stored.

        What was generated before is predicted, so that it is verified in few passes.

        Raises:
            _OtherAnswerError: the answer does not begin as it did before.
        """
        pool, model = self._state.pool, self._state.model(job.model)
        stored = await asyncio.to_thread(find_response, pool.models, job.app, job.id)
        if stored is not None:  # the process ended between the two records
            _keep_text(job)
            writer = self._writer(job)
            writer.resume(job.text)
            job.add(writer.rest_of(stored[1].body))
            return dict(stored[1].body)
        request = ResponsesRequest.model_validate(job.request["body"])
        writer = self._writer(job, await self._previous(job, request.previous_response_id))
        _keep_text(job)
        writer.resume(sent := job.text)
        options = request.options()
        options |= {"app": job.app, "priority": Priority.PROACTIVE, "seed": job.request["seed"]}
        bound_answers(options, self._state.config.default_max_tokens)
        if sent:
            options["prediction"] = {"type": "content", "content": sent}
        async with AsyncExitStack() as stack:
            stack.enter_context(pool.hold(model))
            runtime = await pool.load(model)
            options |= await writer.begin(runtime, stack)
            job.context_id = options["context_id"]
            stream = await runtime.start(writer.prompt, **options)
            stack.callback(stream.cancel)
            if not any(event["type"] == "response.in_progress" for event in job.events):
                job.add([writer.step("in_progress")])
            async for event in stream.events():
                if sent:
                    text = event.text if isinstance(event, TextDelta) else ""
                    again = min(len(text), len(sent))
                    if not text or text[:again] != sent[:again]:
                        raise _OtherAnswerError
                    sent, event = sent[again:], TextDelta(text[again:])
                    if len(text) == again:
                        continue
                chunks = list(writer.chunks(0, event))
                if isinstance(event, Finished):
                    self._state.metrics.record(model.name, event.generation)
                    await asyncio.to_thread(writer.finish, event.generation)
                job.add(chunks, event.text if isinstance(event, TextDelta) else "")
        return writer.response()

    async def _previous(self, job: Job, id: str | None) -> StoredResponse | None:
        if id is None:
            return None
        found = await asyncio.to_thread(find_response, self._state.pool.models, job.app, id)
        if found is None:
            raise InvalidRequestError(
                "previous_response_id", f"the response {id!r} was deleted. Send the whole conversation."
            )
        return found[1]


def _apps(config: ServerConfig) -> frozenset[str]:
    """Return the apps that may send requests."""
    if config.tokens is not None:
        return config.apps - {METRICS_READER}
    if config.uds is None:
        return frozenset({LOCAL_APP})
    ours, theirs = socket.socketpair()  # as those of the only user that may connect
    with ours, theirs:
        return frozenset({peer_app(ours)})


class _OtherAnswerError(Exception):
    """An answer does not begin as it did before."""


def _keep_text(job: Job) -> None:
    """Take back the events behind the first text of the answer: calls are generated again."""
    kept = list(takewhile(_is_of_text, job.events))
    if len(kept) < len(job.events):
        job.take_back(len(kept), "".join(event.get("delta", "") for event in kept))


def _is_of_text(event: Event) -> bool:
    is_call = event.get("item", {}).get("type", "message") != "message"
    return event["type"] in _OF_TEXT and not is_call


def background_of(request: Request) -> BackgroundResponses:
    """Return the background responses of the server that received ``request``."""
    return cast(BackgroundResponses, request.app.state.background)


@router.get("/v1/responses", summary="List the background responses")
async def list_background(request: Request, query: Annotated[PageQuery, Query()]) -> ResponseList:
    """Return the background responses of the app, as each is now. The newest is the first by default."""
    background = background_of(request)
    await background.queue.sweep()
    jobs = background.queue.table.of(app_of(request))
    return ResponseList(**page_of(jobs, lambda job: job.id, query, background.body))


@router.post("/v1/responses/{response_id}/cancel", summary="Cancel a background response")
async def cancel_response(response_id: str, request: Request) -> Response:
    """End a background response, and return it. One that has ended is returned as it is."""
    background = background_of(request)
    return await background.show(await background.cancel(app_of(request), response_id))
