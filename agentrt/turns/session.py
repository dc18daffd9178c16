"""Speculation for a tool loop without a framework."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import anyio

from ..calls import ToolCall
from ..concurrency.hosts import Host, TaskGroupHost, worker_loop
from ..config import SpeculationConfig
from ..drafts import DraftRequest, Speculator
from ..errors import ConfigurationError
from ..reports.events import SpeculationObserver
from ..reports.report import SpeculationReport
from ..tools.scopes import run_scope
from ..tools.toolbox import Toolbox
from .session_request import Message, Model, SessionRequest, calls_of
from .shared import SharedState
from .turn import Turn


class SpeculationSession:
    """Speculates beside the model calls of a tool loop that you write yourself.

    ::

        async with SpeculationSession([search_notes, read_note], [predictor]) as session:
            with session.turn(messages, schemas) as turn:       # the predictors start guessing
                answer = await my_model(messages, schemas)
                turn.bind(answer.calls)                         # right guesses are kept, others cancelled
            results = [await session.acall(call) for call in answer.calls]

    ``tools`` are those declared ``@speculable``; calls of other tools are yours to make. The loop is
    asyncio's; in code without one use ``with`` and :meth:`call`. What a session started ends with it.

    A session is one run: give each user and each conversation a session of its own.
    """

    def __init__(
        self,
        tools: Sequence[object],
        predictors: Sequence[Speculator],
        *,
        samples: int = 1,
        config: SpeculationConfig | None = None,
        observers: Sequence[SpeculationObserver] = (),
    ) -> None:
        """``samples`` is how many guesses each predictor is asked for (SpecTools' λ)."""
        self._toolbox = Toolbox(tools)
        self._predictors = tuple(predictors)
        self._context = SharedState.create(samples, config, observers)
        self._scope = object()  # a session is one run, and its own
        self._host: Host | None = None
        self._exit = AsyncExitStack()
        self._exit_sync = ExitStack()
        self._turns: WeakSet[Turn] = WeakSet()

    async def __aenter__(self) -> Self:
        """Open the session on this event loop."""
        self._exit.enter_context(run_scope(self._scope))
        group = await self._exit.enter_async_context(anyio.create_task_group())
        self._exit.callback(group.cancel_scope.cancel)
        self._host = TaskGroupHost(group)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cancel what is still running and wait until it has stopped."""
        self._close()
        # An error of the caller's is none of the task group's, which would wrap it.
        await self._exit.aclose()

    def __enter__(self) -> Self:
        """Open the session for code without an event loop: predictors run on agentrt's worker loop."""
        self._exit_sync.enter_context(run_scope(self._scope))
        self._host = worker_loop
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cancel what is still running."""
        self._close()
        self._exit_sync.__exit__(kind, error, traceback)

    def _close(self) -> None:
        self._host = None
        self._context.ahead.forget(self._scope)
        for turn in list(self._turns):
            turn.abandon()

    def turn(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Turn:
        """Start to speculate on the answer to ``messages``; use the turn as a context manager.

        Both arguments have the shape of OpenAI's chat completions, and are passed to the predictors.
        """
        return self._start(functools.partial(DraftRequest, messages, tools, self._context.samples))

    def _start(self, request: Callable[[], DraftRequest], main: SessionRequest | None = None) -> Turn:
        if self._host is None:
            raise ConfigurationError("the session is not open. Use it in a with or async with block.")
        turn = Turn(
            self._context,
            tools=self._toolbox.tools,
            predictors=self._predictors,
            request=request,
            scope=self._scope,
            main=main,
        )
        self._turns.add(turn)
        turn.start(self._host)
        return turn

    async def ask(self, model: Model, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
        """Have ``model`` answer ``messages`` and speculate beside it; return what it returns.

        This is :meth:`turn` for a model that is an async function of messages and tools and returns an
        assistant's message, all in the shape of chat completions. Only so can the session ask the model ahead
        of its turn, if ``turn_ahead`` of the configuration allows it. For an answer to be kept, results must
        be put into the messages as they are if they are text, else as JSON.
        """
        # A copy, because the caller's history grows before the next request is known.
        main = SessionRequest(model, list(messages), tools, self._predictors, self._context.samples)
        book = self._context.ahead
        ahead = book.take(self._scope, main.key) if book.enabled else None
        if ahead is None:
            with self._start(main.request, main) as turn:
                answer = await model(messages, tools)
                turn.bind(calls_of(answer))
            return answer
        self._turns.add(ahead.turn)
        with ahead.turn as turn:
            try:
                (answer,) = [message async for message in ahead.answer()]
            except Exception:  # noqa: BLE001 - of a call that was not due; this one is
                answer = await model(messages, tools)
            turn.bind(calls_of(answer), generation_s=ahead.generation_s)
        return answer

    def call(self, call: ToolCall) -> Any:
        """Make a call the model asked for: its speculation's result, or else the tool's, run now.

        Raises what the tool raises, and :class:`InvalidRequestError` if the session has no such tool, if
        it refuses the arguments, or if it is a coroutine function (then use :meth:`acall`).
        """
        return self._toolbox.call(call, self._scope)

    async def acall(self, call: ToolCall) -> Any:
        """:meth:`call` for async code. A sync tool runs in a thread, so that it cannot block the loop."""
        return await self._toolbox.acall(call, self._scope)

    def report(self) -> SpeculationReport:
        """What speculation did in this session so far."""
        return self._context.reporter.report()
