"""Long calls of MCP servers: tasks, which are polled and cancelled, for clients of version 2 of ``mcp``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import anyio
from mcp import MCPError
from mcp.client import ClaimContext, ClientExtension, ClientSession, ResultClaim
from mcp.types import (
    CallToolResult,
    CancelTaskRequest,
    CancelTaskRequestParams,
    ErrorData,
    GetTaskRequest,
    GetTaskRequestParams,
    Result,
    TaskStatus,
    TextContent,
)

logger = logging.getLogger("agentrt")

_POLL_SECONDS: Final = 1.0  # where the server suggests no interval
_LEAST_POLL_SECONDS: Final = 0.05
_CANCEL_SECONDS: Final = 5.0


class CreatedTask(Result):
    """The handle that a server returns in place of a tool's result."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int | None = None
    """How often the server wants to be asked."""


class _TaskState(Result):
    status: TaskStatus
    status_message: str | None = None
    poll_interval_ms: int | None = None
    result: dict[str, Any] | None = None
    error: ErrorData | None = None


class _GetTask(GetTaskRequest):
    name_param: ClassVar[str | None] = "taskId"  # routed to the server that has the task


class _CancelTask(CancelTaskRequest):
    name_param: ClassVar[str | None] = "taskId"


class TasksExtension(ClientExtension):
    """Lets servers answer a tool's call with a task, which is polled until it has the result.

    ::

        async with mcp.Client(server, extensions=[TasksExtension()]) as client:
            ...

    It is the client's part of ``io.modelcontextprotocol/tasks`` at revision 2026-07-28, for real calls and
    speculative ones. A call that is cancelled, as that of a speculation which nobody claims, cancels its
    task. Input that a task asks for is not given: the task is cancelled, and the result is an error.
    """

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the claim of results that are tasks."""
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_result_of),)


async def _result_of(task: CreatedTask, context: ClaimContext) -> CallToolResult:
    """Return the result of a task.

    Raises:
        MCPError: the call failed with an error of the protocol.
    """
    over = False
    try:
        state = await _wait(task, context.session)
        over = state.status != "input_required"
    finally:
        if not over:
            await _cancel(task, context.session)
    if state.status == "completed":
        return CallToolResult.model_validate(state.result, by_name=False)
    if state.error is not None:
        raise MCPError(state.error.code, state.error.message, state.error.data)
    said = f": {state.status_message}" if state.status_message else ""
    text = f"the task of {context.tool_name} ended without a result ({state.status}{said})"
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


async def _wait(task: CreatedTask, session: ClientSession) -> _TaskState:
    """Return the state of a task that does not work any more."""
    interval_ms = task.poll_interval_ms
    while True:
        seconds = _POLL_SECONDS if interval_ms is None else interval_ms / 1000
        await anyio.sleep(max(_LEAST_POLL_SECONDS, seconds))
        request = _GetTask(params=GetTaskRequestParams(task_id=task.task_id))
        state = await session.send_request(request, _TaskState)
        if state.status != "working":
            return state
        interval_ms = interval_ms if state.poll_interval_ms is None else state.poll_interval_ms


async def _cancel(task: CreatedTask, session: ClientSession) -> None:
    request = _CancelTask(params=CancelTaskRequestParams(task_id=task.task_id))
    try:
        with anyio.fail_after(_CANCEL_SECONDS, shield=True):
            await session.send_request(request, Result)
    except Exception as error:  # noqa: BLE001 - the caller's own error or cancellation goes on
        logger.warning("a task of an MCP server could not be cancelled: %s", type(error).__name__)
