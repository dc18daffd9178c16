"""One model call with its speculations: SpecTools, Algorithm 2."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from ._hosts import Host
from ._threads import loop_caller, start_in_thread
from .answers import AnswerStream
from .calls import ParserEvent, ToolCall
from .claims import Ticket
from .config import SpeculationConfig
from .drafts import DraftRequest, Learner, Speculator
from .events import DraftArrived, DraftRefused, PredictorFailed, SpeculationStarted, TurnAnswered
from .futures import FuturesCache, Speculation
from .report import Reporter, TurnRecorder
from .speculable import Invocation, SpeculableTool


class Turn:
    """Speculates beside one call of the main model.

    Life: :meth:`start` sets the predictors going; each guess starts its tool at once; when the model has
    answered, :meth:`bind` leaves the matching speculations at their tools and cancels the rest, or
    :meth:`discard` cancels them all. None of the three waits for anything, and each may be called from
    any thread. Leaving the context manager without having bound discards.
    """

    def __init__(
        self,
        *,
        tools: Mapping[str, SpeculableTool],
        predictors: Sequence[Speculator],
        request: Callable[[], DraftRequest],
        config: SpeculationConfig,
        reporter: Reporter,
    ) -> None:
        """``request`` is called beside the main call, so that building it costs the main call nothing.

        The turn adds to it what only the turn knows: the answer as it comes.
        """
        self._tools = tools
        self._predictors = predictors
        self._answer = AnswerStream()
        self._request = functools.cache(lambda: dataclasses.replace(request(), answer=self._answer))
        self._reporter = reporter
        self._number = reporter.next_turn()
        self._recorder = TurnRecorder(reporter, self._number)
        self._cache = FuturesCache(config.max_speculations)
        self._speculations: list[Speculation] = []
        self._started_at = time.monotonic()
        self._stop_drafting: Callable[[], None] | None = None
        self._may_run_coroutines = False

    def __enter__(self) -> Turn:
        """Return the turn itself, started by whoever made it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Discard the speculations unless the turn was bound."""
        self.discard()

    def start(self, host: Host) -> None:
        """Set the predictors going on ``host``, in a copy of this context."""
        self._may_run_coroutines = host.runs_coroutine_tools
        host.start(self._run)

    def observe(self, event: ParserEvent) -> None:
        """Show the predictors what the main model has just written, where its answer is streamed."""
        self._answer.put(event)

    def bind(self, calls: Sequence[ToolCall]) -> None:
        """Take the main model's answer: leave a ticket at each called tool, cancel the other runs."""
        generation_s = time.monotonic() - self._started_at
        for call in calls:
            tool = self._tools.get(call.name)
            if tool is None or call.id is None:
                continue
            # Arguments that the tool will refuse, or that have no key, match nothing.
            key = None
            with suppress(Exception):
                key = tool.key(tool.bind(call.arguments))
            speculation, reason = None, "its arguments are not valid"
            if key is not None:
                speculation, reason = self._cache.take(key), self._cache.why_missing(key)
            if speculation is not None:
                speculation.expect()
            tool.claims.leave(call.id, Ticket(key, speculation, self._recorder, reason))
        self._reporter.note(TurnAnswered(self._number, generation_s, tuple(call.name for call in calls)))
        self._close("the model did not make this call")
        self._teach(calls)

    def discard(self) -> None:
        """Cancel everything that was not bound; without effect on what was."""
        if not self._cache.closed:
            self._close("the model gave no answer")

    def abandon(self) -> None:
        """Cancel everything, also what was bound and not yet claimed."""
        self.discard()
        for speculation in self._speculations:
            speculation.cancel("the session was closed")

    def _teach(self, calls: Sequence[ToolCall]) -> None:
        for predictor in self._predictors:
            if isinstance(predictor, Learner):
                try:
                    predictor.learn(self._request(), calls)
                except Exception as error:  # noqa: BLE001 - as harmless as a predictor that fails to guess
                    self._note_failure(predictor, error)

    def _note_failure(self, predictor: Speculator, error: BaseException) -> None:
        self._reporter.note(
            PredictorFailed(self._number, _name_of(predictor), f"{type(error).__name__}: {error}")
        )

    def _close(self, reason: str) -> None:
        self._answer.end()
        for speculation in self._cache.close(reason):
            self._recorder.wasted(speculation, reason)
        if self._stop_drafting is not None:
            self._stop_drafting()

    # From here on everything runs on the host's loop.

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as runs, anyio.create_task_group() as drafting:
                call_soon = loop_caller()
                self._stop_drafting = lambda: call_soon(drafting.cancel_scope.cancel)
                if self._cache.closed:  # answered before this task got its first step
                    return
                for predictor in self._predictors:
                    drafting.start_soon(self._draft, predictor, runs)
        finally:
            # A task that is cancelled before its first step runs no code of its own.
            for speculation in self._speculations:
                speculation.cancel("its event loop ended")

    async def _draft(self, predictor: Speculator, runs: TaskGroup) -> None:
        try:
            async for call in predictor.drafts(self._request()):
                self._offer(call, _name_of(predictor), runs)
        except Exception as error:  # noqa: BLE001 - a predictor may fail in any way; the report says so
            self._note_failure(predictor, error)

    def _offer(self, call: ToolCall, predictor: str, runs: TaskGroup) -> None:
        """Start the tool that ``call`` guesses, unless something speaks against it."""
        draft_s = time.monotonic() - self._started_at
        self._reporter.note(DraftArrived(self._number, predictor, call.name, draft_s))
        refusal = self._start_early(call, draft_s, runs)
        if refusal:
            self._reporter.note(DraftRefused(self._number, predictor, call.name, refusal))

    def _start_early(self, call: ToolCall, draft_s: float, runs: TaskGroup) -> str | None:
        tool = self._tools.get(call.name)
        if tool is None:
            return "no speculable tool of this name"
        as_coroutine = tool.acall is not None and self._may_run_coroutines
        if not as_coroutine and tool.call is None:
            return "a coroutine tool cannot run early in a sync turn"
        try:
            invocation = tool.bind(call.arguments)
            key = tool.key(invocation)
        except Exception as error:  # noqa: BLE001 - validators and canonicalisers are the user's
            return f"bad arguments ({type(error).__name__})"
        if key in self._cache:
            return None
        if not tool.slots.acquire(blocking=False):
            return "max_concurrency of the tool is reached"
        speculation = Speculation(
            tool.name, key, ttl=tool.options.ttl, draft_s=draft_s, needs_loop=as_coroutine
        )
        if not self._cache.add(speculation):
            tool.slots.release()
            return None if self._cache.closed else "max_speculations of the turn is reached"
        self._speculations.append(speculation)
        self._reporter.note(SpeculationStarted(self._number, tool.name))
        if as_coroutine:
            task = _start_coroutine(tool, invocation, speculation)
            runs.start_soon(_watch_coroutine, tool, speculation, task)
        else:
            _start_function(tool, invocation, speculation)
            runs.start_soon(_watch_function, tool, speculation)
        return None


def _name_of(predictor: Speculator) -> str:
    return getattr(predictor, "name", type(predictor).__name__)


def _start_coroutine(
    tool: SpeculableTool, invocation: Invocation, speculation: Speculation
) -> asyncio.Task[None]:
    async def work() -> None:
        assert tool.acall is not None
        try:
            speculation.finish(await tool.acall(*invocation.args, **invocation.kwargs))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a failed speculation is a miss
            speculation.fail(error)

    # A task of its own and no cancel scope: asyncio code expects to be cancelled once, and may await while
    # it cleans up; in a cancelled scope each of these awaits would be cancelled again.
    task = asyncio.get_running_loop().create_task(work(), name=f"agentrt early {tool.name}")
    task.add_done_callback(lambda _: speculation.cancel("the early run was cancelled"))
    speculation.when_over(tool.slots.release)
    return task


async def _watch_coroutine(tool: SpeculableTool, speculation: Speculation, task: asyncio.Task[None]) -> None:
    """Cancel the run's task when its speculation is cancelled, and wait until it has cleaned up."""
    try:
        await _over_or_too_late(tool, speculation)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])


def _start_function(tool: SpeculableTool, invocation: Invocation, speculation: Speculation) -> None:
    def work() -> None:
        assert tool.call is not None
        # The outcome is set in this thread, so that a thread that waits for it depends on no event loop.
        try:
            speculation.finish(tool.call(*invocation.args, **invocation.kwargs))
        except BaseException as error:  # noqa: BLE001 - a failed speculation is a miss
            speculation.fail(error)
        finally:
            tool.slots.release()

    try:
        start_in_thread(work, name=f"agentrt early {tool.name}")
    except RuntimeError as error:  # the system has no thread left
        speculation.fail(error)
        tool.slots.release()


async def _watch_function(tool: SpeculableTool, speculation: Speculation) -> None:
    await _over_or_too_late(tool, speculation)


async def _over_or_too_late(tool: SpeculableTool, speculation: Speculation) -> None:
    """Wait until the run is over; cancel it if it takes too long, unless its call has really been made."""
    call_soon = loop_caller()
    timeout = tool.options.timeout
    with anyio.CancelScope(deadline=anyio.current_time() + timeout) as patience:

        def lift() -> None:
            patience.deadline = math.inf

        speculation.when_expected(lambda: call_soon(lift))
        await speculation.over()
    speculation.cancel(f"the early run took longer than {timeout} s")
