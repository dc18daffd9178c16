"""Tasks of a real MCP server, in this process: polled for real calls and speculative ones, and cancelled."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from mcp import types

from agentrt import SpeculationSession, ToolCall
from agentrt.adapters.mcp import speculable_tools
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.mcp_servers import VERSION_2

if not VERSION_2:
    pytest.skip("version 1 of mcp has no extensions", allow_module_level=True)

import mcp
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer

from agentrt.adapters.mcp import TasksExtension

FIND = ToolCall("find", {"query": "a"}, "1")
STAMPS = {"createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": None}


class TaskParams(types.RequestParams):
    task_id: str


class Tasks(Extension):
    """The server's part: each call of a client that takes tasks is one, which works for ``seconds``."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, *, seconds: float = 30, ends: dict[str, Any] | None = None) -> None:
        self.ends = ends or {
            "status": "completed",
            "result": {"content": [{"type": "text", "text": "found"}]},
        }
        self.seconds = seconds
        self.cancelled: list[str] = []
        self.asked: list[float] = []
        self._over: dict[str, float] = {}
        self._ids = (f"task_{number}" for number in itertools.count())

    def methods(self) -> Any:
        bound = (("tasks/get", self._get), ("tasks/cancel", self._cancel))
        return [MethodBinding(method, TaskParams, handler) for method, handler in bound]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        now = asyncio.get_running_loop().time()
        id = next(self._ids)
        self._over[id] = now + self.seconds
        return {"resultType": "task", "taskId": id, "status": "working", "pollIntervalMs": 7000, **STAMPS}

    async def _get(self, ctx: Any, params: TaskParams) -> Any:
        now = asyncio.get_running_loop().time()
        self.asked.append(now)
        state = {"status": "working"} if now < self._over[params.task_id] else self.ends
        return {"resultType": "complete", "taskId": params.task_id, **STAMPS, **state}

    async def _cancel(self, ctx: Any, params: TaskParams) -> Any:
        self.cancelled.append(params.task_id)
        return {"resultType": "complete"}


async def find(query: str) -> str:
    raise AssertionError("every call is a task")


def server_of(tasks: Tasks) -> MCPServer:
    server = MCPServer("slow", extensions=[tasks])
    server.add_tool(find, annotations=types.ToolAnnotations(read_only_hint=True), structured_output=False)
    return server


def answered(tasks: Tasks, made: ToolCall = FIND, **options: Any) -> tuple[Any, float, Any]:
    """Draft a call of the tool, generate for 40 seconds, make another; return its result, time, report."""

    async def main() -> tuple[Any, float, Any]:
        async with mcp.Client(server_of(tasks), extensions=[TasksExtension()]) as client:
            tools = await speculable_tools(client, trusted=True, **options)
            async with SpeculationSession(tools, [ScriptedSpeculator([FIND])]) as session:
                began = asyncio.get_running_loop().time()
                with session.turn([], []) as turn:
                    await asyncio.sleep(40)
                    turn.bind([made])
                result = await session.acall(made)
                return result, asyncio.get_running_loop().time() - began, session.report()

    return run_in_virtual_time(main)


def test_a_speculation_that_is_a_task_is_polled_as_the_server_wants_and_claimed() -> None:
    tasks = Tasks()
    result, took, report = answered(tasks)
    assert result.content[0].text == "found"
    assert (took, report.total.claims, tasks.cancelled) == (40, 1, [])
    assert [round(later - earlier) for earlier, later in itertools.pairwise(tasks.asked)] == [7, 7, 7, 7]


def test_a_claimed_task_that_still_works_is_waited_for() -> None:
    result, took, report = answered(Tasks(seconds=50))
    assert result.content[0].text == "found"
    assert (round(took), report.total.claims) == (56, 1)  # polled every seven seconds


def test_the_task_of_a_speculation_that_nobody_claims_is_cancelled() -> None:
    tasks = Tasks(seconds=60)
    result, _, report = answered(tasks, ToolCall("find", {"query": "b"}, "1"))
    assert result.content[0].text == "found"  # that of the real call, which was polled as well
    assert (tasks.cancelled, report.total.wasted) == (["task_0"], 1)


def test_a_speculation_that_takes_too_long_cancels_its_task() -> None:
    tasks = Tasks(seconds=30)
    _, took, _ = answered(tasks, timeout=10)
    assert tasks.cancelled == ["task_0"]
    assert round(took) == 40 + 35


@pytest.mark.parametrize(
    ("ends", "text", "cancelled"),
    [
        ({"status": "cancelled", "statusMessage": "too old"}, "cancelled: too old", []),
        ({"status": "input_required", "inputRequests": {}}, "input_required", ["task_0", "task_1"]),
    ],
)
def test_a_task_without_a_result_fails_the_speculation_and_the_call_says_why(
    ends: dict[str, Any], text: str, cancelled: list[str]
) -> None:
    tasks = Tasks(seconds=5, ends=ends)
    result, _, report = answered(tasks)
    assert result.is_error
    assert text in result.content[0].text
    assert (report.total.claims, tasks.cancelled) == (0, cancelled)


def test_an_error_of_the_protocol_is_raised_by_the_real_call() -> None:
    tasks = Tasks(seconds=5, ends={"status": "failed", "error": {"code": -32603, "message": "broken"}})
    with pytest.RaisesGroup(pytest.RaisesExc(mcp.MCPError, match="broken"), flatten_subgroups=True):
        answered(tasks)  # the client's task group wraps what leaves its block
    assert tasks.cancelled == []


def test_a_task_that_cannot_be_cancelled_is_told_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn(Tasks):
        async def _cancel(self, ctx: Any, params: TaskParams) -> Any:
            raise mcp.MCPError(-32602, "no such task")

    result, _, report = answered(Stubborn(seconds=60), ToolCall("find", {"query": "b"}, "1"))
    assert (result.content[0].text, report.total.wasted) == ("found", 1)
    assert "a task of an MCP server could not be cancelled: MCPError" in caplog.text


def test_a_server_sends_no_tasks_to_a_client_without_the_extension() -> None:
    """It must not; one that does fails the speculation, and the real call as the package says."""

    async def main() -> Any:
        async with mcp.Client(server_of(Tasks())) as client:
            tools = await speculable_tools(client, trusted=True)
            async with SpeculationSession(tools, [ScriptedSpeculator([FIND])]) as session:
                with session.turn([], []) as turn:
                    await asyncio.sleep(40)
                    turn.bind([FIND])
                with pytest.raises(Exception, match=r"task|result"):
                    await session.acall(FIND)
                return session.report()

    assert run_in_virtual_time(main).total.claims == 0
