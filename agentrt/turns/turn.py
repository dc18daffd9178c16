"""One model request with its speculations: SpecTools, Algorithm 2."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import AsyncGenerator, Collection, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from contextvars import Context
from typing import Any

from ..argument_checks import check_call, check_field
from ..calls import ParserEvent, ToolCall
from ..concurrency.clock import monotonic
from ..concurrency.detached import detached_context
from ..concurrency.hosts import Host
from ..concurrency.tasks import CLEAN_UP_SECONDS, TaskSet
from ..drafts import Speculator
from ..errors import InvalidRequestError
from ..lookahead.ahead import AheadRequest, AheadStarter
from ..lookahead.model_request import ModelRequest, after_draft
from ..reports.events import TurnAnswered, WorkAbandoned
from ..toolcache import TakePrediction, TakeResult
from ..tools.runner import SpeculativeRuns
from ..tools.scopes import TurnMark, begin_turn, disclosure_permitted, leave_run
from ..tools.speculation import Speculation
from ..tools.writes import write_log
from .overhead import CpuMeter
from .shared import SharedState
from .speculations import TurnSpeculations
from .turn_input import TurnInput
from .turn_predictors import TurnPredictors

logger = logging.getLogger("agentrt")
_MADE_OTHERWISE = "the run went on without claiming it"
_REJECTED = "its call was rejected, or failed elsewhere"
_ANSWERED = "a guard, such as a person, answered the call in place of the tool"


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
        input: TurnInput,
        predictors: Sequence[Speculator],
        *,
        main: ModelRequest | None = None,
        earlier: AheadRequest | None = None,
        depth: int = 0,
    ) -> None:
        """Adapters start turns by :meth:`~agentrt.adapting.Turns.start`.

        ``main`` is the model request, where ahead requests may follow it. A turn that is ``depth`` turns
        ahead follows ``earlier`` and receives its own model request by :meth:`take_request`.
        """
        self._shared = shared
        self._reporter = shared.reporter
        self._input = input
        self.number = input.number
        """The turn's number in reports, from 1."""
        self._mark = TurnMark()
        self._main = main
        self._earlier = earlier
        self._taken: AheadRequest | None = None
        """The request ahead whose answer is that of this turn."""
        can_follow = main is not None or earlier is not None
        self._starter = AheadStarter(shared.ahead, self._send_ahead if can_follow else None, depth)
        self._speculations = TurnSpeculations(shared, input, self._starter)
        self._work = CpuMeter()
        self._predictors = TurnPredictors(
            shared, input, predictors, self._speculations, self._work, ahead=earlier is not None
        )
        self._host: Host | None = None
        self._caller_context = Context()
        self._unbound = threading.Lock()
        """Acquired, without waiting, by the one :meth:`bind`."""

    def __enter__(self) -> Turn:
        """Return the turn, which is already started."""
        return self

    def __exit__(self, *error: object) -> None:
        """Discard the speculations unless the turn was bound."""
        self.discard()

    def start(self, host: Host) -> None:
        """Start the predictors on ``host``, in a context that belongs to no run, below the turn's span.

        A turn whose predictors are not worth running starts nothing: it only matches calls, and teaches.
        """
        if self._earlier is None and not self._predictors.any_worth_running():
            return
        self._host = host
        with self._work.running():
            self._input.may_disclose = disclosure_permitted()
            self._caller_context = detached_context()
            # In a copy: the turn may use the context from another thread before the host has started it.
            self._caller_context.copy().run(self._start_apart, host)

    def _start_apart(self, host: Host) -> None:
        leave_run()  # a tool that is run speculatively makes no calls of the model
        if self._shared.spans is not None:
            self._shared.spans.enter(self.number)
        host.start(functools.partial(self._work.measured, self._run))

    def begin(self, answered: Collection[str] = (), rejected: Collection[str] = ()) -> None:
        """Note that the model request is sent in this context, which will make the calls of its answer.

        ``answered`` are the ids of the calls whose results end the request's history: they have been made.
        ``rejected`` are those that ended in an error instead, as a person's rejection does. What these calls,
        and those of the turn before in this context, could have claimed is dropped. A guard answered those
        answered calls of guarded tools that have not reached them. Without a scope the turn before may be
        another conversation's: its other calls can still be made, as misses.
        """
        run = (self._reporter, self._input.scope)
        self._mark, before = begin_turn(run, self._shared.controller.tool_seconds)
        for tool in self._input.tools.values():
            tool.pending_claims.drop_calls(rejected, self._input.scope, _REJECTED, made=False)
            if answered and len(tool.pending_claims) and tool.name in self._input.restrictions().unapproved:
                tool.pending_claims.drop_calls(answered, self._input.scope, _ANSWERED, made=False)
            if before is not None and self._input.scope is None:
                tool.pending_claims.leave_turn(before, self._mark, _MADE_OTHERWISE, answered)
            elif before is not None:
                tool.pending_claims.drop_turn(before, _MADE_OTHERWISE, answered)
            tool.pending_claims.drop_calls(answered, self._input.scope, _MADE_OTHERWISE)

    def take_request(self, request: ModelRequest) -> None:
        """Take the model request of a turn that is ahead, now that it is known and about to be sent."""
        self._input.take_request(request.request)
        self._predictors.take(request.predictors)

    def take_answer_of(self, ahead: AheadRequest) -> None:
        """Take the answer to a request that was sent ahead, as that of the equal request which is due now."""
        self._taken = ahead

    async def lookahead_answer(self) -> AsyncGenerator[Any, None]:
        """Yield the answer of a request that was sent ahead, in the pieces of ``ModelRequest.stream``.

        It yields nothing if there is no such request, or if that has failed: then send the request. An error
        after the first piece is raised, as by any stream that breaks off.
        """
        if self._taken is not None:
            async with aclosing(self._taken.answer()) as pieces:
                async for piece in pieces:
                    yield piece

    def lookahead_answer_blocking(self) -> Generator[Any, None, None]:
        """:meth:`lookahead_answer` for code without an event loop."""
        if self._taken is not None:
            yield from self._taken.answer_blocking()

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
        self._predictors.answer.put(event)

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
        generation_s = monotonic() - self._predictors.began_at if ahead_s is None else ahead_s
        made = [*calls, *self._predictors.calls_read] if leave_claims else calls
        # Reading a thread's CPU time is a system call: left out where there is nothing to charge.
        with nullcontext() if self._host is None else self._work.running():
            for call in made:
                write_log.note(self._input.scope, call.name)
            keys = self._speculations.judge(made)
            if leave_claims:
                self._speculations.leave_claims(made, keys, self._mark)
        tools = tuple(call.name for call in made)
        self._reporter.note(TurnAnswered(self.number, generation_s, tools, self._work.seconds))
        self._starter.answered(keys[: len(calls)], self._input.scope)
        self._close("the model did not make this call")
        self._predictors.teach(calls)

    def bind_answered(self, calls: Sequence[ToolCall]) -> None:
        """Take calls that the engine has answered, with results that :meth:`on_finished` handed out."""
        used = self._speculations.take(calls)
        self._starter.close("the engine answered the call")
        self._bind(calls, leave_claims=False)  # the agent will not make them
        for speculation in used:
            if speculation.done and speculation.result().usable:
                self._speculations.recorder.claimed(speculation, tool_s=speculation.seconds, waited_s=0.0)

    def on_finished(self, take: TakeResult) -> None:
        """Call ``take`` with every speculation that succeeds and whose result is text or JSON.

        Speculations that have already finished are included. It is called in the thread in which the
        speculation ends. Preparations of two-phase tools are left out: they have no result yet.
        """
        self._speculations.on_finished(take)

    def on_predicted(self, take: TakePrediction) -> None:
        """Call ``take`` with every call that was predicted, and with later ones, also if its tool never runs.

        Calls whose results :meth:`on_finished` leaves out are left out.
        """
        self._speculations.on_predicted(take)

    def discard(self) -> None:
        """Drop the speculations that were not bound; stop reading an answer that was requested ahead."""
        if self._taken is not None:
            self._taken.stop()
        if not self._speculations.cache.closed:
            self._close("the model gave no answer")

    def abandon(self) -> None:
        """Drop all speculations, including those that are bound and not yet claimed."""
        self.discard()
        for tool in self._input.tools.values():
            tool.pending_claims.drop_turn(self._mark, "the session was closed")
        self._speculations.drop("the session was closed")

    def _close(self, reason: str) -> None:
        self._predictors.end()
        self._starter.close(reason)
        self._speculations.cache.close(reason)
        if self._shared.spans is not None:
            self._shared.spans.leave(self.number, reason)

    async def _run(self) -> None:
        """Run the predictors and the tools on the host's loop."""
        assert self._host is not None
        runs = SpeculativeRuns(self._speculations.note_discard_failure, self._note_abandoned)
        drafting = TaskSet(self._note_abandoned)
        try:
            await self._predictors.run(runs, drafting, may_run_coroutines=self._host.runs_coroutine_tools)
            await runs.over()
        finally:
            self._speculations.cancel("its event loop ended")
            drafting.cancel_all()
            await runs.stop()
            await drafting.stop()

    def _note_abandoned(self, name: str) -> None:
        logger.warning(
            "%s has not ended %g s after its cancellation, and is not waited for any longer. Let it raise "
            "asyncio.CancelledError on.",
            name,
            CLEAN_UP_SECONDS,
        )
        self._reporter.note(WorkAbandoned(self.number, name, CLEAN_UP_SECONDS))

    def _send_ahead(self, call: ToolCall, speculation: Speculation, depth: int) -> AheadRequest:
        """Send the model request that follows if ``call`` is made; see :mod:`agentrt.lookahead.ahead`."""
        ahead = AheadRequest(self._shared.ahead, call, speculation, main=self._main, earlier=self._earlier)
        request = functools.partial(after_draft, self._input.request(), call)
        ahead.turn = Turn(
            self._shared,
            self._input.following(self._reporter.next_turn(), request),
            list(self._predictors),
            earlier=ahead,
            depth=depth,
        )
        # In the context in which this turn was started, not in that of the finished speculation.
        assert self._host is not None
        self._caller_context.run(ahead.turn.start, self._host)
        self._caller_context.run(self._host.start, ahead.run)
        return ahead
