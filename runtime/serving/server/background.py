"""Background responses over HTTP: queued, shown, streamed again and cancelled."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from agentrt.errors import EngineError, InvalidRequestError, JobQuotaError
from agentrt.priority import Priority

from ...pool.background.config import BackgroundConfig
from ...pool.background.job import Job
from ...pool.background.service import BackgroundService
from ...pool.responses.items import ResponsesRequest
from ...request.field_names import sender_names
from ..http.errors import ApiError, to_api_error
from ..http.identity import LOCAL_APP, METRICS_READER, peer_app
from ..http.request_state import app_of, priority_headers
from ..http.streaming import ClosingStreamingResponse
from ..http.strict_json import StrictJsonRoute, compact_json, large_json_response
from .paging import PageBody, PageQuery, page_of
from .response_writer import DONE, ResponseWriter
from .server_state import ServerConfig, ServerState

_QUOTAS: Final = {
    "jobs_per_app": "job_quota_exceeded",
    "bytes_per_app": "job_bytes_quota_exceeded",
    "seconds_per_app": "job_seconds_quota_exceeded",
}
"""The code of the error for each limit."""

router = APIRouter(route_class=StrictJsonRoute)


class ResponseList(PageBody[dict[str, Any]]):
    """Background responses."""


class BackgroundResponses(BackgroundService):
    """The background responses of one server. For one event loop."""

    def __init__(self, state: ServerState, config: BackgroundConfig) -> None:
        """Those of ``state``'s models whose contexts have a folder survive the process."""
        super().__init__(
            state.pool,
            config,
            apps=sorted(_apps(state.config)),
            default_max_tokens=state.config.default_max_tokens,
            on_answer=state.metrics.record,
        )
        self._state = state
        state.metrics.watch(self.queue)

    def find(self, app: str, id: str) -> Job | None:
        """Return the job of a background response; None if ``app`` has no such response, or no longer."""
        return self.queue.table.get(app, id)

    async def respond(
        self,
        body: ResponsesRequest,
        writer: ResponseWriter,
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
        if not body.is_stored:
            raise InvalidRequestError("store", "a background response is stored. Leave store out.")
        if body.wants_logprobs:
            raise InvalidRequestError("include", "a background response has no logprobs. Leave them out.")
        if body.named_priority is Priority.REACTIVE:
            raise InvalidRequestError(
                body.priority_field, "a background response is proactive. Leave its priority out."
            )
        model = self._state.model(body.model)
        try:
            with sender_names(lambda field: writer.field_name(field, 0), writer.shorten):
                queued = await self.queue_response(model, writer, body, app, session, request_bytes)
        except JobQuotaError as error:
            raise ApiError(
                *(429, str(error)),
                code=_QUOTAS[error.quota],
                kind="insufficient_quota",
                headers={"x-should-retry": "false"},
            ) from error
        job = self.queue.table.get(app, queued.id)
        assert job is not None
        return await self.show(job, -1 if body.stream else None)

    async def show(self, job: Job, after: int | None = None) -> Response:
        """Return a background response, or its events whose number is above ``after``."""
        headers = priority_headers(Priority.PROACTIVE)
        if after is None:
            body = self.body(job)
            return await large_json_response(lambda: body, headers)
        request = ResponsesRequest.model_validate(job.request["body"])
        writer = ResponseWriter(job.model, request, None, job.app, None, job.id, job.created)
        return ClosingStreamingResponse(
            self._encoded(writer, job, after),
            media_type=writer.media_type,
            headers={"cache-control": "no-store", **headers},
        )

    async def _encoded(self, writer: ResponseWriter, job: Job, after: int) -> AsyncGenerator[str, None]:
        end = DONE  # where no event is left to read
        try:
            async for event in self.queue.events(job, after):
                end = ""
                yield await writer.encode(event)
        except EngineError as error:  # no event of the response, which goes on at the next server
            end = f"data: {compact_json(to_api_error(error).body())}\n\n"
        if end:
            yield end

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


def _apps(config: ServerConfig) -> frozenset[str]:
    """Return the apps that may send requests."""
    if config.tokens is not None:
        return config.apps - {METRICS_READER}
    if config.uds is None:
        return frozenset({LOCAL_APP})
    ours, theirs = socket.socketpair()  # as those of the only user that may connect
    with ours, theirs:
        return frozenset({peer_app(ours)})


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
