"""One model request with its speculations: SpecTools, Algorithm 2."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing, contextmanager, nullcontext
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio

from ..argument_checks import check_call, check_field
from ..calls import ParserEvent, ToolCall
from ..calls.copying import copied_call
from ..concurrency.clock import monotonic
from ..concurrency.contained import contained
from ..concurrency.detached import detached_context
from ..concurrency.hosts import Host
from ..concurrency.tasks import CLEAN_UP_SECONDS, TaskSet
from ..concurrency.threads import loop_caller
from ..drafts import (
    AnswerStream,
    DraftCost,
    DraftRequest,
    Speculator,
    copied_request,
    drafts_of,
    learner_of,
    looks_ahead,
    name_of,
    reads_answer,
    reads_calls,
    shares_cores,
)
from ..errors import InvalidRequestError
from ..lookahead.ahead import AheadRequest
from ..lookahead.model_request import ModelRequest, after_draft
from ..lookahead.starter import AheadStarter
from ..reports.error_kind import error_kind
from ..reports.events import (
    DraftJudged,
    PredictorCharged,
    PredictorEnded,
    PredictorFailed,
    PredictorSkipped,
    PredictorStarted,
    PredictorStopped,
    TurnAnswered,
    WorkAbandoned,
)
from ..toolcache import TakeResult
from ..tools.restrictions import UNRESTRICTED, Restrictions
from ..tools.runner import SpeculativeRuns
from ..tools.scopes import TurnMark, begin_turn, disclosure_permitted, leave_run
from ..tools.speculable_tool import SpeculableTool
from ..tools.speculation import Speculation
from ..tools.writes import write_log
from .controller import Decision
from .history import CallHistory
from .overhead import CpuMeter
from .shared import SharedState
from .speculations import TurnSpeculations

logger = logging.getLogger("agentrt")
_MADE_OTHERWISE = "the run went on without claiming it"
_REJECTED = "its call was rejected, or failed elsewhere"
_ANSWERED = "a guard, such as a person, answered the call in place of the tool"
_MAX_DRAFTS = 256
"""Of one predictor in one turn, so that an endless one fills neither the memory nor the loop."""


class Turn:
    """Speculates during one request of the main model.

    :meth:`start` starts the predictors; each draft starts its tool at once. When the model has answered,
    :meth:`bind` leaves the matching speculations at their tools and drops the rest; :meth:`discard` drops
    them all. None of the three blocks, and each may be called from any thread. Leaving the context manager
    without having bound discards.
    """

    def __init__(
        self,
        shared: SharedState,
        *,
        tools: Mapping[str, SpeculableTool],
        predictors: Sequence[Speculator],
        request: Callable[[], DraftRequest],
        scope: Hashable = None,
        main: ModelRequest | None = None,
        earlier: AheadRequest[Turn] | None = None,
        depth: int = 0,
        restrictions: Callable[[], Restrictions] = lambda: UNRESTRICTED,
    ) -> None:
        """Adapters start turns by :meth:`~agentrt.adapting.Turns.start`.

        ``request`` returns the request for the predictors; the turn copies it and adds what only it knows. It
        is called on the host's loop, so that building it does not delay the model request. ``scope``
        identifies the run, if it is known. ``main`` is the model request, where ahead requests may follow
        it. A turn that is ``depth`` turns ahead follows ``earlier`` and receives its own model request by
        :meth:`take_request`; until then it runs only predictors that look ahead. ``restrictions`` returns
        which of ``tools`` must not run speculatively; if none may, no predictor is run. It is called by
        :meth:`start`, in the caller's context, and only if a predictor is worth running.
        """
        self._shared = shared
        self._reporter = shared.reporter
        self._tools = tools
        self._predictors = predictors
        self._request = self._once(request)
        self._scope = scope
        self._mark = TurnMark()
        self._main = main
        self._earlier = earlier
        self._taken: AheadRequest[Turn] | None = None
        """The request ahead whose answer is that of this turn."""
        self._known = anyio.Event() if earlier is not None else None
        self._host: Host | None = None
        self._caller_context = Context()
        self._number = shared.reporter.next_turn()
        self._answer = AnswerStream()
        can_follow = main is not None or earlier is not None
        self._starter = AheadStarter(shared.ahead, self._send_ahead if can_follow else None, depth)
        self._restrictions = functools.cache(restrictions)
        self._speculations = TurnSpeculations(
            shared,
            tools,
            scope,
            self._number,
            self._starter,
            self._restrictions,
            self._history,
            lambda: self._may_disclose,
        )
        self._started_at = monotonic()
        self._stop_drafting: Callable[[], None] | None = None
        self._decisions: dict[int, Decision] = {}
        self._run_predictors: set[int] = set()
        self._runs_predictors = False
        self._calls_read: list[ToolCall] = []
        """Calls that predictors have read off the answer."""
        self._may_disclose = False
        self._known_calls: tuple[DraftRequest, CallHistory] | None = None
        self._work = CpuMeter()
        self._unbound = threading.Lock()
        """Acquired, without waiting, by the one :meth:`bind`."""

    def __enter__(self) -> Turn:
        """Return the turn, which is already started."""
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
        """Start the predictors on ``host``, in a context that belongs to no run, below the turn's span.

        A turn whose predictors are not worth running starts nothing: it only matches calls, and teaches.
        """
        self._host = host
        if self._earlier is None and not self._any_worth_running():
            return
        self._runs_predictors = True
        with self._work.running():
            self._may_disclose = disclosure_permitted()
            self._caller_context = detached_context()
            # In a copy: the turn may use the context from another thread before the host has started it.
            self._caller_context.copy().run(self._start_apart, host)

    def _any_worth_running(self) -> bool:
        """Whether any predictor is to run in this turn; all of them are decided on."""
        decisions = [self._decision(predictor) for predictor in self._predictors]
        return any(decision.speculate for decision in decisions)

    def _start_apart(self, host: Host) -> None:
        leave_run()  # a tool that is run speculatively makes no calls of the model
        if self._shared.spans is not None:
            self._shared.spans.enter(self._number)
        host.start(functools.partial(self._work.measured, self._run))

    def begin(self, answered: Collection[str] = (), rejected: Collection[str] = ()) -> None:
        """Note that the model request is sent in this context, which will make the calls of its answer.

        ``answered`` are the ids of the calls whose results end the request's history: they have been made.
        ``rejected`` are those that ended in an error instead, as a person's rejection does. What these calls,
        and those of the turn before in this context, could have claimed is dropped. A guard answered those
        answered calls of guarded tools that have not reached them. Without a scope the turn before may be
        another conversation's: its other calls can still be made, as misses.
        """
        self._mark, before = begin_turn((self._reporter, self._scope))
        for tool in self._tools.values():
            tool.pending_claims.drop_calls(rejected, self._scope, _REJECTED, made=False)
            if answered and len(tool.pending_claims) and tool.name in self._restrictions().unapproved:
                tool.pending_claims.drop_calls(answered, self._scope, _ANSWERED, made=False)
            if before is not None and self._scope is None:
                tool.pending_claims.leave_turn(before, self._mark, _MADE_OTHERWISE, answered)
            elif before is not None:
                tool.pending_claims.drop_turn(before, _MADE_OTHERWISE, answered)
            tool.pending_claims.drop_calls(answered, self._scope, _MADE_OTHERWISE)

    @property
    def number(self) -> int:
        """The turn's number in reports, from 1."""
        return self._number

    def take_request(self, request: ModelRequest) -> None:
        """Take the model request of a turn that is ahead, now that it is known and about to be sent."""
        self._predictors = request.predictors
        self._request = self._once(request.request)
        self._started_at = monotonic()
        if self._known is not None:
            self._known.set()

    def take_answer_of(self, ahead: AheadRequest[Turn]) -> None:
        """Take the answer to a request that was sent ahead, as that of the equal request which is due now."""
        self._taken = ahead

    async def lookahead_answer(self) -> AsyncGenerator[Any, None]:
        """Yield the answer of a request that was sent ahead, in the pieces of ``ModelRequest.stream``.

        It yields nothing if there is no such request, or if that has failed: then send the request. An error
        after the first piece is raised, as by any stream that breaks off.
        """
        if self._taken is None:
            return
        yielded = False
        try:
            async with aclosing(self._taken.answer()) as pieces:
                async for piece in pieces:
                    yielded = True
                    yield piece
        except Exception:
            if yielded:
                raise

    def lookahead_answer_blocking(self) -> Generator[Any, None, None]:
        """:meth:`lookahead_answer` for code without an event loop."""
        if self._taken is None:
            return
        yielded = False
        try:
            with closing(self._taken.answer_blocking()) as pieces:
                for piece in pieces:
                    yielded = True
                    yield piece
        except Exception:
            if yielded:
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read the answer in this block: an error in it discards the turn and is logged, not raised.

        The user then gets the answer as it is.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - servers and models of others may answer anything
            self.discard()
            logger.warning("an answer could not be read for its tool calls: %s", type(error).__name__)

    def set_depth(self, depth: int) -> None:
        """Lower the number of turns by which this turn is ahead, so that further requests may follow it."""
        self._starter.set_depth(depth)

    def observe(self, event: ParserEvent) -> None:
        """Pass the next piece of a streamed answer to the predictors."""
        self._answer.put(event)

    def bind(self, calls: Sequence[ToolCall]) -> None:
        """Take the calls of the answer: each called tool keeps a pending claim; drop the other speculations.

        Raises:
            InvalidRequestError: ``calls`` is no list of tool calls with parsed arguments, or the turn is
                bound already. Nothing was bound.
        """
        self._bind(calls, leave_claims=True)

    def _bind(self, calls: Sequence[ToolCall], *, leave_claims: bool) -> None:
        check_field("calls", calls, Sequence, "a list of ToolCall")
        for call in calls:
            check_call("calls", call)
        if not self._unbound.acquire(blocking=False):
            raise InvalidRequestError(
                "calls", "the turn is bound already. Bind it once, to the calls that you are going to make."
            )
        ahead_s = None if self._taken is None else self._taken.generation_s
        generation_s = monotonic() - self._started_at if ahead_s is None else ahead_s
        # Reading a thread's CPU time is a system call: left out where there is nothing to charge.
        made = [*calls, *self._calls_read] if leave_claims else calls
        with self._work.running() if self._runs_predictors else nullcontext():
            keys = self._match(made, leave_claims)
        tools = tuple(call.name for call in made)
        self._reporter.note(TurnAnswered(self._number, generation_s, tools, self._work.seconds))
        self._starter.answered(keys[: len(calls)], self._scope)
        self._close("the model did not make this call")
        self._teach(calls)

    def _match(self, calls: Sequence[ToolCall], leave_claims: bool) -> list[str | None]:
        """Judge the drafts and leave each called tool a pending claim if it is to; return the calls' keys."""
        for call in calls:
            write_log.note(self._scope, call.name)
        keys = [self._key_of(call) for call in calls]
        for draft, correct in self._speculations.drafts.judged(keys):
            judged = DraftJudged(self._number, draft.predictor, draft.tool, correct, draft.draft_s)
            self._reporter.note(judged)
        if leave_claims:
            self._leave_claims(calls, keys)
        return keys

    def _leave_claims(self, calls: Sequence[ToolCall], keys: Sequence[str | None]) -> None:
        for call, key in zip(calls, keys, strict=True):
            if call.name in self._tools:
                pending = self._speculations.pending_claim(call, key)
                self._tools[call.name].pending_claims.add(call.id, pending, self._mark, self._scope)

    def bind_answered(self, calls: Sequence[ToolCall]) -> None:
        """Take calls that the engine has answered, with results that :meth:`on_finished` handed out."""
        keys = [self._key_of(call) for call in calls]
        used = [self._speculations.cache.take(key) for key in keys if key is not None]
        self._starter.close("the engine answered the call")
        self._bind(calls, leave_claims=False)  # the agent will not make them
        for speculation in used:
            if speculation is not None and speculation.done and speculation.result().usable:
                self._speculations.recorder.claimed(speculation, tool_s=speculation.seconds, waited_s=0.0)

    def on_finished(self, take: TakeResult) -> None:
        """Call ``take`` with every speculation that succeeds and whose result is text or JSON.

        Speculations that have already finished are included. It is called in the thread in which the
        speculation ends. Preparations of two-phase tools are left out: they have no result yet.
        """
        self._speculations.on_finished(take)

    def discard(self) -> None:
        """Drop the speculations that were not bound; stop reading an answer that was requested ahead."""
        if self._taken is not None:
            self._taken.stop()
        if not self._speculations.cache.closed:
            self._close("the model gave no answer")

    def abandon(self) -> None:
        """Drop all speculations, including those that are bound and not yet claimed."""
        self.discard()
        for tool in self._tools.values():
            tool.pending_claims.drop_turn(self._mark, "the session was closed")
        self._speculations.drop("the session was closed")

    def _once(self, request: Callable[[], DraftRequest]) -> Callable[[], DraftRequest]:
        """Return a function that builds the request of a turn once, for predictors that may change it."""
        samples = self._shared.samples
        return functools.cache(lambda: copied_request(dataclasses.replace(request(), samples=samples)))

    def _key_of(self, call: ToolCall) -> str | None:
        """Return a call's key; None if its tool is not speculable or refuses the arguments."""
        tool = self._tools.get(call.name)
        if tool is not None:
            with contained(lambda error: None):
                return tool.key_of(call.arguments)
        return None

    def _teach(self, calls: Sequence[ToolCall]) -> None:
        for predictor in self._predictors:
            learner = learner_of(predictor)
            if learner is not None:
                with contained(functools.partial(self._note_failure, predictor)):
                    learner.learn(self._request(), [copied_call(call) for call in calls])

    def _close(self, reason: str) -> None:
        self._answer.end()
        self._starter.close(reason)
        self._speculations.cache.close(reason)
        if self._shared.spans is not None:
            self._shared.spans.leave(self._number, reason)
        if self._stop_drafting is not None:
            self._stop_drafting()

    # The methods below run on the host's loop.

    async def _run(self) -> None:
        runs = SpeculativeRuns(self._speculations.note_discard_failure, self._note_abandoned)
        drafting = TaskSet(self._note_abandoned)
        call_soon = loop_caller()
        # A step later: a predictor that waits for the answer reads it to its end.
        self._stop_drafting = lambda: call_soon(functools.partial(call_soon, drafting.cancel_all))
        try:
            await self._draft_all(drafting, runs)
            await runs.over()
        finally:
            self._speculations.cancel("its event loop ended")
            drafting.cancel_all()
            await runs.stop()
            await drafting.stop()

    async def _draft_all(self, drafting: TaskSet, runs: SpeculativeRuns) -> None:
        self._start_predictors(drafting, runs)
        if self._known is not None:
            drafting.start(self._draft_when_known(self._known, drafting, runs), "a lookahead request")
        await drafting.over()

    def _start_predictors(self, drafting: TaskSet, runs: SpeculativeRuns) -> None:
        for predictor in self._predictors:
            drafting.start(self._work.measured(self._draft, predictor, runs), name_of(predictor))

    async def _draft_when_known(self, known: anyio.Event, drafting: TaskSet, runs: SpeculativeRuns) -> None:
        await known.wait()  # once its result is known, all predictors run on it
        self._start_predictors(drafting, runs)

    async def _draft(self, predictor: Speculator, runs: SpeculativeRuns) -> None:
        name = name_of(predictor)
        may_run_coroutines = self._host is not None and self._host.runs_coroutine_tools
        if self._speculations.cache.closed:  # answered already: speculations would only be cancelled
            return
        with contained(functools.partial(self._note_failure, predictor)):
            decision = self._decision(predictor)
            if not decision.speculate:
                return
            if id(predictor) not in self._run_predictors:
                self._run_predictors.add(id(predictor))
                self._reporter.note(PredictorStarted(self._number, name, decision.samples))
            request = dataclasses.replace(
                self._request(),
                samples=decision.samples,
                speculable=self._restrictions().permitted(self._tools),
                answer=self._answer,
                spend=functools.partial(self._charge, name),
                affords=functools.partial(self._affords, name),
            )
            left, began = _MAX_DRAFTS, monotonic()
            async for call in drafts_of(predictor, request):
                draft_s = monotonic() - self._started_at
                if reads_calls(predictor) and isinstance(call, ToolCall):
                    # With an id, so that it does not count as made if it never comes.
                    number = len(self._calls_read)
                    self._calls_read.append(dataclasses.replace(call, id=f"code_{self._number}_{number}"))
                await self._speculations.offer(
                    call,
                    name,
                    draft_s,
                    runs,
                    may_run_coroutines=may_run_coroutines,
                    predicted=not reads_answer(predictor),
                )
                await asyncio.sleep(0)  # a predictor that never awaits must not block the loop
                left -= 1
                if not left or self._speculations.cache.closed:
                    break
            if not self._speculations.cache.closed:
                self._reporter.note(PredictorEnded(self._number, name, monotonic() - began))

    def _history(self) -> CallHistory:
        """Return the calls in the messages of the request, which an ahead turn learns later."""
        request = self._request()
        if self._known_calls is None or self._known_calls[0] is not request:
            self._known_calls = request, CallHistory(request.messages, self._tools)
        return self._known_calls[1]

    def _decision(self, predictor: Speculator) -> Decision:
        """Return whether to run a predictor in this turn; decided once, and reported if not."""
        decision = self._decisions.get(id(predictor))
        if decision is None:
            decision = self._decide(predictor)
            self._decisions[id(predictor)] = decision
            if not decision.speculate:
                self._reporter.note(PredictorSkipped(self._number, name_of(predictor), decision.reason))
        return decision

    def _decide(self, predictor: Speculator) -> Decision:
        decision = self._shared.controller.should_predict(
            name_of(predictor), self._shared.samples, monotonic(), shares_cores=shares_cores(predictor)
        )
        if not decision.speculate or not self._tools:
            return decision
        # Asked last: finding the guards of a graph costs more than all of the above.
        with self._work.running():
            restrictions = self._restrictions()
        permitted = restrictions.permitted(self._tools)
        if not permitted:
            return Decision(False, reason=next(iter(restrictions.refused.values())))
        if all(self._shared.watch.stopped(tool) for tool in permitted):
            return Decision(False, reason="none of the tools is run speculatively any more")
        return decision

    def _charge(self, predictor: str, cost: DraftCost) -> None:
        self._reporter.note(PredictorCharged(self._number, predictor, cost))

    def _affords(self, predictor: str, cost: DraftCost) -> bool:
        spent = self._shared.controller.budget_spent(monotonic(), cost)
        if spent is not None:
            self._reporter.note(PredictorStopped(self._number, predictor, spent))
        return spent is None

    def _note_failure(self, predictor: Speculator, error: BaseException) -> None:
        self._reporter.note(PredictorFailed(self._number, name_of(predictor), error_kind(error)))

    def _note_abandoned(self, name: str) -> None:
        logger.warning(
            "%s has not ended %g s after its cancellation, and is not waited for any longer. Let it raise "
            "asyncio.CancelledError on.",
            name,
            CLEAN_UP_SECONDS,
        )
        self._reporter.note(WorkAbandoned(self._number, name, CLEAN_UP_SECONDS))

    def _send_ahead(self, call: ToolCall, speculation: Speculation, depth: int) -> AheadRequest[Turn]:
        """Send the model request that follows if ``call`` is made; see :mod:`agentrt.lookahead.ahead`."""
        ahead = AheadRequest[Turn](
            self._shared.ahead, call, speculation, main=self._main, earlier=self._earlier
        )
        ahead.turn = Turn(
            self._shared,
            tools=self._tools,
            predictors=[predictor for predictor in self._predictors if looks_ahead(predictor)],
            request=functools.partial(after_draft, self._request(), call),
            scope=self._scope,
            earlier=ahead,
            depth=depth,
            restrictions=self._restrictions,
        )
        # In the context in which this turn was started, not in that of the finished speculation.
        assert self._host is not None
        self._caller_context.run(ahead.turn.start, self._host)
        self._caller_context.run(self._host.start, ahead.run)
        return ahead
