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

from ._clock import monotonic
from ._hosts import Host
from ._threads import loop_caller
from .ahead import Ahead, MainCall, after_guess
from .answers import AnswerStream
from .calls import ParserEvent, ToolCall
from .claims import Ticket
from .context import SpeculationContext
from .drafts import DraftCost, DraftRequest, Learner, Speculator
from .early_runs import start_early
from .events import (
    DiscardFailed,
    DraftArrived,
    DraftJudged,
    DraftRefused,
    PredictorAsked,
    PredictorCharged,
    PredictorFailed,
    PredictorSkipped,
    SpeculationStarted,
    TurnAnswered,
)
from .futures import FuturesCache, Speculation
from .guesses import MAX_GUESSES, Guess, Guesses
from .reporter import TurnRecorder
from .speculable import SpeculableTool
from .writes import write_log


class Turn:
    """Speculates beside one call of the main model.

    Life: :meth:`start` sets the predictors going; each guess starts its tool at once; when the model has
    answered, :meth:`bind` leaves the matching speculations at their tools and drops the rest, or
    :meth:`discard` drops them all. None of the three waits for anything, and each may be called from
    any thread. Leaving the context manager without having bound discards.
    """

    def __init__(
        self,
        context: SpeculationContext,
        *,
        tools: Mapping[str, SpeculableTool],
        predictors: Sequence[Speculator],
        request: Callable[[], DraftRequest],
        scope: Hashable = None,
        main: MainCall | None = None,
        earlier: Ahead | None = None,
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
        self._depth = depth
        self._ahead: Ahead | None = None
        self._first_run: tuple[ToolCall, SpeculableTool, Speculation] | None = None
        self._ahead_key = ""
        self._known = anyio.Event()
        self._host: Host | None = None
        self._variables = Context()
        self._number = context.reporter.next_turn()
        self._recorder = TurnRecorder(context.reporter, self._number)
        self._answer = AnswerStream()
        self._cache = FuturesCache(context.config.max_speculations)
        self._speculations: list[Speculation] = []
        self._runs: list[tuple[ToolCall, Speculation]] = []
        self._listeners: list[Callable[[ToolCall, Any], None]] = []
        self._guesses = Guesses()
        self._started_at = monotonic()
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
        self._host = host
        self._variables = copy_context()
        self._may_run_coroutines = host.runs_coroutine_tools
        host.start(self._run)

    @property
    def number(self) -> int:
        """Under which reports know the turn."""
        return self._number

    def go_on(self, main: MainCall) -> None:
        """Take the call of a turn that is ahead, now that it is known and about to be made."""
        self._main = main
        self._predictors = main.predictors
        self._request = functools.cache(main.request)
        self._started_at = monotonic()
        self._known.set()

    def come_due(self, depth: int = 0) -> None:
        """Say that this turn is now only ``depth`` turns ahead, so that others may follow on it."""
        self._depth = depth
        if self._ahead is not None:
            self._ahead.turn.come_due(depth + 1)
        elif self._first_run is not None and not self._cache.closed:
            self._go_ahead(*self._first_run)

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
        for guess, correct in self._guesses.judged(keys):
            judged = DraftJudged(self._number, guess.predictor, guess.tool, correct, guess.draft_s)
            self._reporter.note(judged)
        for call, key in zip(calls, keys, strict=True):
            if call.name in self._tools and call.id is not None:
                self._tools[call.name].claims.leave(call.id, self._ticket(key), self._scope)
        self._reporter.note(TurnAnswered(self._number, generation_s, tuple(call.name for call in calls)))
        if self._ahead is not None and keys == [self._ahead_key]:
            self._context.ahead.expect(self._scope, self._ahead)
            self._ahead = None
        self._close("the model did not make this call")
        self._teach(calls)

    def answered(self, calls: Sequence[ToolCall]) -> None:
        """Take an answer whose calls were answered on the way, from what :meth:`on_finished` handed out."""
        keys = [self._key_of(call) for call in calls]
        used = [self._cache.take(key) for key in keys if key is not None]
        self.bind(calls)
        for call in calls:
            if call.name in self._tools and call.id is not None:
                self._tools[call.name].claims.take(call.id, self._scope)  # nobody will make it
        for speculation in used:
            if speculation is not None and speculation.done and speculation.result().usable:
                self._recorder.claimed(speculation, tool_s=speculation.seconds, waited_s=0.0)

    def on_finished(self, listener: Callable[[ToolCall, Any], None]) -> None:
        """Tell ``listener`` of every early run that ends well: the guessed call, and what the tool gave.

        Also of those that have ended. It is called in whichever thread the run ends and must not block.
        Preparations of tools that run in two phases have given nothing yet.
        """
        self._listeners.append(listener)
        for call, speculation in tuple(self._runs):
            self._tell_when_over(listener, call, speculation)

    def _tell_when_over(
        self, listener: Callable[[ToolCall, Any], None], call: ToolCall, speculation: Speculation
    ) -> None:
        def tell() -> None:
            outcome = speculation.peek()
            if outcome.usable and not self._tools[call.name].two_phase:
                listener(call, outcome.value)

        speculation.when_over(tell)

    def discard(self) -> None:
        """Drop everything that was not bound; without effect on what was."""
        if not self._cache.closed:
            self._close("the model gave no answer")

    def abandon(self) -> None:
        """Drop everything, also what was bound and not yet claimed."""
        self.discard()
        for speculation in self._speculations:
            speculation.drop("the session was closed")

    def _key_of(self, call: ToolCall) -> str | None:
        """The key of a call, or None where its tool is not speculable or will refuse its arguments."""
        tool = self._tools.get(call.name)
        if tool is not None:
            with suppress(Exception):
                return tool.key(tool.bind(call.arguments))
        return None

    def _ticket(self, key: str | None) -> Ticket:
        if key is None:
            return Ticket(None, None, self._recorder, "its arguments are not valid")
        speculation, reason = self._cache.take(key), self._cache.why_missing(key)
        if speculation is not None:
            speculation.expect()
            return Ticket(key, speculation, self._recorder)
        guessed_s = None if key in self._cache else self._guesses.first_s(key)
        if guessed_s is not None:
            reason = "guessed, but not run early"
        return Ticket(key, None, self._recorder, reason, guessed_s)

    def _teach(self, calls: Sequence[ToolCall]) -> None:
        for predictor in self._predictors:
            if isinstance(predictor, Learner):
                try:
                    predictor.learn(self._request(), calls)
                except Exception as error:  # noqa: BLE001 - as harmless as a predictor that fails to guess
                    self._note_failure(predictor, error)

    def _close(self, reason: str) -> None:
        self._answer.end()
        if self._ahead is not None:
            self._ahead.discard(reason)
        self._cache.close(reason)
        if self._stop_drafting is not None:
            self._stop_drafting()

    # From here on everything runs on the host's loop.

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as runs, anyio.create_task_group() as drafting:
                call_soon = loop_caller()
                self._stop_drafting = lambda: call_soon(drafting.cancel_scope.cancel)
                await checkpoint()
                if self._cache.closed:  # answered at once; starting tasks now would only be to cancel them
                    return
                for predictor in self._predictors:
                    drafting.start_soon(self._draft, predictor, runs)
                if self._earlier is not None:
                    await self._known.wait()
                    for predictor in self._predictors:
                        if not _looks_ahead(predictor):
                            drafting.start_soon(self._draft, predictor, runs)
        finally:
            # A task that is cancelled before its first step runs no code of its own.
            for speculation in self._speculations:
                speculation.cancel("its event loop ended")

    async def _draft(self, predictor: Speculator, runs: TaskGroup) -> None:
        name = _name_of(predictor)
        try:
            decision = self._context.controller.should_ask(name, self._context.samples, monotonic())
            if not decision.speculate:
                self._reporter.note(PredictorSkipped(self._number, name, decision.reason))
                return
            self._reporter.note(PredictorAsked(self._number, name, decision.samples))
            request = dataclasses.replace(
                self._request(),
                samples=decision.samples,
                speculable=self._tools.keys(),
                answer=self._answer,
                spend=functools.partial(self._charge, name),
            )
            left = MAX_GUESSES
            async for call in predictor.drafts(request):
                self._offer(call, name, runs)
                await checkpoint()  # a predictor that never waits must not keep the loop from the main call
                left -= 1
                if not left:
                    break
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it may fail in any way; the report says so
            self._note_failure(predictor, error)

    def _charge(self, predictor: str, cost: DraftCost) -> None:
        self._reporter.note(PredictorCharged(self._number, predictor, cost))

    def _note_failure(self, predictor: Speculator, error: BaseException) -> None:
        # Not the error's text, which may hold keys and arguments.
        status = getattr(error, "status_code", None)
        what = f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
        self._reporter.note(PredictorFailed(self._number, _name_of(predictor), what))

    def _note_discard_failure(self, tool: SpeculableTool, error: BaseException) -> None:
        self._reporter.note(DiscardFailed(self._number, tool.name, type(error).__name__))

    def _offer(self, call: ToolCall, predictor: str, runs: TaskGroup) -> None:
        """Start the tool that ``call`` guesses, unless something speaks against it."""
        draft_s = monotonic() - self._started_at
        self._reporter.note(DraftArrived(self._number, predictor, call.name, draft_s))
        refusal = self._start_early(call, predictor, draft_s, runs)
        if refusal:
            self._reporter.note(DraftRefused(self._number, predictor, call.name, refusal))

    def _start_early(self, call: ToolCall, predictor: str, draft_s: float, runs: TaskGroup) -> str | None:
        tool = self._tools.get(call.name)
        if tool is None:
            return "no speculable tool of this name"
        moment = write_log.now()
        try:
            invocation = tool.bind(call.arguments)
            key = tool.key(invocation)
        except Exception as error:  # noqa: BLE001 - validators and canonicalisers are the user's
            return f"bad arguments ({type(error).__name__})"
        self._guesses.add(Guess(predictor, key, tool.name, draft_s))
        as_coroutine = tool.aearly is not None and self._may_run_coroutines
        if not as_coroutine and tool.early is None:
            return "a coroutine tool cannot run early in a sync turn"
        if key in self._cache:
            return None
        cost = tool.options.cost
        decision = self._context.controller.should_run(
            predictor, tool.name, monotonic(), draft_s=draft_s, cost=cost
        )
        if not decision.speculate:
            return decision.reason
        if not tool.slots.acquire(blocking=False):
            return "max_concurrency of the tool is reached"
        speculation = Speculation(
            tool.name,
            key,
            ttl=tool.options.ttl,
            draft_s=draft_s,
            predictor=predictor,
            cost=cost,
            needs_loop=as_coroutine,
            outdated=functools.partial(_outdated, tool.options.invalidated_by, self._scope, moment),
            on_wasted=self._recorder.wasted,
        )
        if not self._cache.add(speculation):
            tool.slots.release()
            return None if self._cache.closed else "max_speculations of the turn is reached"
        self._speculations.append(speculation)
        self._runs.append((call, speculation))
        for listener in tuple(self._listeners):
            self._tell_when_over(listener, call, speculation)
        self._reporter.note(SpeculationStarted(self._number, tool.name, predictor))
        start_early(tool, invocation, speculation, runs, self._note_discard_failure)
        if self._first_run is None:
            self._first_run = call, tool, speculation
            self._go_ahead(*self._first_run)
        return None

    def _go_ahead(self, call: ToolCall, tool: SpeculableTool, speculation: Speculation) -> None:
        """Prepare for the model's call after this one, if the first guess is right; see :mod:`agentrt.ahead`.

        Of a tool that runs in two phases the result is not known before the real call.
        """
        can_follow = self._main is not None or self._earlier is not None
        if not can_follow or tool.two_phase or not self._may_run_coroutines:
            return
        if not self._context.ahead.allows(self._depth + 1):
            return
        request = functools.partial(after_guess, self._request(), call)
        ahead = Ahead(self._context.ahead, self._main, call, speculation)
        ahead.turn = Turn(
            self._context,
            tools=self._tools,
            predictors=[predictor for predictor in self._predictors if _looks_ahead(predictor)],
            request=request,
            scope=self._scope,
            earlier=ahead,
            depth=self._depth + 1,
        )
        self._ahead, self._ahead_key = ahead, speculation.key
        # As if from where this turn was started, whoever has now caused it.
        assert self._host is not None
        self._variables.run(ahead.turn.start, self._host)
        run = functools.partial(ahead.run, None if self._main is not None else self._earlier)
        self._variables.run(self._host.start, run)


def _looks_ahead(predictor: Speculator) -> bool:
    return bool(getattr(predictor, "looks_ahead", False))


def _name_of(predictor: Speculator) -> str:
    return getattr(predictor, "name", type(predictor).__name__)


def _outdated(writers: Sequence[str], scope: Hashable, moment: int) -> str | None:
    written = write_log.written_since(moment, scope, writers) if writers else None
    return None if written is None else f"{written} was called meanwhile"
