"""One model call with its speculations: SpecTools, Algorithm 2."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..answers import AnswerStream
from ..calls import ParserEvent, ToolCall
from ..concurrency.clock import monotonic
from ..concurrency.hosts import Host
from ..concurrency.threads import loop_caller
from ..drafts import DraftCost, DraftRequest, Learner, Speculator, looks_ahead
from ..lookahead.ahead import AheadRequest, ModelRequest, after_draft
from ..lookahead.follower import AheadStarter
from ..reports.events import (
    DraftJudged,
    PredictorAsked,
    PredictorCharged,
    PredictorFailed,
    PredictorSkipped,
    TurnAnswered,
)
from ..tools.speculable import SpeculableTool
from ..tools.speculation import Speculation
from ..tools.writes import write_log
from .controller import Decision
from .drafts import MAX_DRAFTS
from .shared import SharedState
from .turn_tools import TurnSpeculations


class Turn:
    """Speculates beside one call of the main model.

    Life: :meth:`start` sets the predictors going; each guess starts its tool at once; when the model has
    answered, :meth:`bind` leaves the matching speculations at their tools and drops the rest, or
    :meth:`discard` drops them all. None of the three waits for anything, and each may be called from
    any thread. Leaving the context manager without having bound discards.
    """

    def __init__(
        self,
        context: SharedState,
        *,
        tools: Mapping[str, SpeculableTool],
        predictors: Sequence[Speculator],
        request: Callable[[], DraftRequest],
        scope: Hashable = None,
        main: ModelRequest | None = None,
        earlier: AheadRequest[Turn] | None = None,
        depth: int = 0,
    ) -> None:
        """``request`` is called beside the main call, so that building it costs the main call nothing.

        The turn adds to it what only the turn knows. ``scope`` says whose run this is, if that is known.
        ``main`` is the call itself, where the next one may be made ahead. A turn that is itself ahead,
        ``depth`` turns, follows on ``earlier`` and is told of its call by :meth:`go_on`; until then only
        predictors are asked that look ahead.
        """
        self._context = context
        self._reporter = context.reporter
        self._tools = tools
        self._predictors = predictors
        self._request = functools.cache(request)
        self._scope = scope
        self._main = main
        self._earlier = earlier
        self._known = anyio.Event()
        self._host: Host | None = None
        self._variables = Context()
        self._number = context.reporter.next_turn()
        self._answer = AnswerStream()
        can_follow = main is not None or earlier is not None
        self._following = AheadStarter(context.ahead, self._open_ahead if can_follow else None, depth)
        self._runs = TurnSpeculations(context, tools, scope, self._number, self._following)
        self._started_at = monotonic()
        self._stop_drafting: Callable[[], None] | None = None
        self._decisions: dict[int, Decision] = {}

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
        self._host = host
        self._variables = copy_context()
        host.start(self._run)

    @property
    def number(self) -> int:
        """Under which reports know the turn."""
        return self._number

    def go_on(self, main: ModelRequest) -> None:
        """Take the call of a turn that is ahead, now that it is known and about to be made."""
        self._predictors = main.predictors
        self._request = functools.cache(main.request)
        self._started_at = monotonic()
        self._known.set()

    def come_due(self, depth: int = 0) -> None:
        """Say that this turn is now only ``depth`` turns ahead, so that others may follow on it."""
        self._following.come_due(depth)

    def observe(self, event: ParserEvent) -> None:
        """Show the predictors what the main model has just written, where its answer is streamed."""
        self._answer.put(event)

    def bind(self, calls: Sequence[ToolCall], *, generation_s: float | None = None) -> None:
        """Take the main model's answer: leave a ticket at each called tool, drop the other runs.

        ``generation_s`` is how long the model took, where that is not the time since the start.
        """
        if generation_s is None:
            generation_s = monotonic() - self._started_at
        for call in calls:
            write_log.note(self._scope, call.name)
        keys = [self._key_of(call) for call in calls]
        for draft, correct in self._runs.drafts.judged(keys):
            judged = DraftJudged(self._number, draft.predictor, draft.tool, correct, draft.draft_s)
            self._reporter.note(judged)
        for call, key in zip(calls, keys, strict=True):
            if call.name in self._tools and call.id is not None:
                self._tools[call.name].claims.leave(call.id, self._runs.ticket(key), self._scope)
        self._reporter.note(TurnAnswered(self._number, generation_s, tuple(call.name for call in calls)))
        self._following.answered(keys, self._scope)
        self._close("the model did not make this call")
        self._teach(calls)

    def answered(self, calls: Sequence[ToolCall]) -> None:
        """Take an answer whose calls were answered on the way, from what :meth:`on_finished` handed out."""
        keys = [self._key_of(call) for call in calls]
        used = [self._runs.cache.take(key) for key in keys if key is not None]
        self._following.close("the call was answered on the way")
        self.bind(calls)
        for call in calls:
            if call.name in self._tools and call.id is not None:
                self._tools[call.name].claims.take(call.id, self._scope)  # nobody will make it
        for speculation in used:
            if speculation is not None and speculation.done and speculation.result().usable:
                self._runs.recorder.claimed(speculation, tool_s=speculation.seconds, waited_s=0.0)

    def on_finished(self, listener: Callable[[ToolCall, Any], None]) -> None:
        """Tell ``listener`` of every early run that ends well: the guessed call, and what the tool gave.

        Also of those that have ended. It is called in whichever thread the run ends and must not block.
        Preparations of tools that run in two phases have given nothing yet.
        """
        self._runs.on_finished(listener)

    def discard(self) -> None:
        """Drop everything that was not bound; without effect on what was."""
        if not self._runs.cache.closed:
            self._close("the model gave no answer")

    def abandon(self) -> None:
        """Drop everything, also what was bound and not yet claimed."""
        self.discard()
        self._runs.drop("the session was closed")

    def _key_of(self, call: ToolCall) -> str | None:
        """The key of a call, or None where its tool is not speculable or will refuse its arguments."""
        tool = self._tools.get(call.name)
        if tool is not None:
            with suppress(Exception):
                return tool.key(tool.bind(call.arguments))
        return None

    def _teach(self, calls: Sequence[ToolCall]) -> None:
        for predictor in self._predictors:
            if isinstance(predictor, Learner):
                try:
                    predictor.learn(self._request(), calls)
                except Exception as error:  # noqa: BLE001 - as harmless as a predictor that fails to guess
                    self._note_failure(predictor, error)

    def _close(self, reason: str) -> None:
        self._answer.end()
        self._following.close(reason)
        self._runs.cache.close(reason)
        if self._stop_drafting is not None:
            self._stop_drafting()

    # From here on everything runs on the host's loop.

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as runs, anyio.create_task_group() as drafting:
                call_soon = loop_caller()
                self._stop_drafting = lambda: call_soon(drafting.cancel_scope.cancel)
                await checkpoint()
                if self._runs.cache.closed:  # answered at once: what was started now would only be cancelled
                    return
                for predictor in self._predictors:
                    drafting.start_soon(self._draft, predictor, runs)
                if self._earlier is not None:  # and all of them when its result is there
                    await self._known.wait()
                    for predictor in self._predictors:
                        drafting.start_soon(self._draft, predictor, runs)
        finally:
            # A task that is cancelled before its first step runs no code of its own.
            self._runs.cancel("its event loop ended")

    async def _draft(self, predictor: Speculator, runs: TaskGroup) -> None:
        name = _name_of(predictor)
        may_run_coroutines = self._host is not None and self._host.runs_coroutine_tools
        try:
            decision = self._decision(predictor, name)
            if not decision.speculate:
                return
            request = dataclasses.replace(
                self._request(),
                samples=decision.samples,
                speculable=self._tools.keys(),
                answer=self._answer,
                spend=functools.partial(self._charge, name),
            )
            left = MAX_DRAFTS
            async for call in predictor.drafts(request):
                draft_s = monotonic() - self._started_at
                self._runs.offer(call, name, draft_s, runs, may_run_coroutines=may_run_coroutines)
                await checkpoint()  # a predictor that never waits must not keep the loop from the main call
                left -= 1
                if not left:
                    break
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it may fail in any way; the report says so
            self._note_failure(predictor, error)

    def _decision(self, predictor: Speculator, name: str) -> Decision:
        """Whether to ask a predictor in this turn: decided, and told, when it is first asked."""
        decision = self._decisions.get(id(predictor))
        if decision is None:
            decision = self._context.controller.should_ask(name, self._context.samples, monotonic())
            self._decisions[id(predictor)] = decision
            if decision.speculate:
                self._reporter.note(PredictorAsked(self._number, name, decision.samples))
            else:
                self._reporter.note(PredictorSkipped(self._number, name, decision.reason))
        return decision

    def _charge(self, predictor: str, cost: DraftCost) -> None:
        self._reporter.note(PredictorCharged(self._number, predictor, cost))

    def _note_failure(self, predictor: Speculator, error: BaseException) -> None:
        # Not the error's text, which may hold keys and arguments.
        status = getattr(error, "status_code", None)
        what = f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
        self._reporter.note(PredictorFailed(self._number, _name_of(predictor), what))

    def _open_ahead(self, call: ToolCall, speculation: Speculation, depth: int) -> AheadRequest[Turn]:
        """Set the model's call going that follows if ``call`` is made; see :mod:`agentrt.lookahead.ahead`."""
        ahead = AheadRequest[Turn](
            self._context.ahead, call, speculation, main=self._main, earlier=self._earlier
        )
        ahead.turn = Turn(
            self._context,
            tools=self._tools,
            predictors=[predictor for predictor in self._predictors if looks_ahead(predictor)],
            request=functools.partial(after_draft, self._request(), call),
            scope=self._scope,
            earlier=ahead,
            depth=depth,
        )
        # As if from where this turn was started, whoever has now caused it.
        assert self._host is not None
        self._variables.run(ahead.turn.start, self._host)
        self._variables.run(self._host.start, ahead.run)
        return ahead


def _name_of(predictor: Speculator) -> str:
    return getattr(predictor, "name", type(predictor).__name__)
