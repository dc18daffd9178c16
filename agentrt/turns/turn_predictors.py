"""The predictors of one turn: which are run, what they draft and cost, and what they learn."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import anyio

from ..calls import ToolCall
from ..calls.arguments import copied_call
from ..concurrency.clock import monotonic
from ..concurrency.contained import contained
from ..concurrency.tasks import TaskSet
from ..concurrency.threads import loop_caller
from ..drafts import (
    AnswerStream,
    DraftCost,
    DraftRequest,
    Speculator,
    drafts_of,
    learner_of,
    looks_ahead,
    name_of,
    reads_answer,
    reads_calls,
    shares_cores,
)
from ..reports import events
from ..tools.runner import SpeculativeRuns
from .controller import Decision
from .overhead import CpuMeter
from .shared import SharedState
from .speculations import TurnSpeculations
from .turn_input import TurnInput

_MAX_DRAFTS = 256
"""Of one predictor in one turn, so that an endless one fills neither the memory nor the loop."""


@dataclass(slots=True, eq=False)
class _Predictor:
    """A predictor in one turn, with the decision on it, once that is made."""

    speculator: Speculator
    decision: Decision | None = None
    started: bool = False

    @property
    def name(self) -> str:
        return name_of(self.speculator)


class TurnPredictors:
    """Decides on the predictors of one turn, offers their drafts, charges what they cost, and teaches them.

    :meth:`run` runs on the turn's event loop; all other methods may be called from any thread.
    """

    def __init__(
        self,
        shared: SharedState,
        input: TurnInput,
        predictors: Sequence[Speculator],
        speculations: TurnSpeculations,
        work: CpuMeter,
        *,
        ahead: bool,
    ) -> None:
        """``speculations`` takes the drafts; ``work`` measures the CPU time that deciding and drafting take.

        The request of a turn that is ``ahead`` is not known yet: only predictors that look ahead are run,
        until :meth:`take` has the others.
        """
        self._shared = shared
        self._note = shared.reporter.note
        self._input = input
        self._predictors = [_Predictor(each) for each in predictors if not ahead or looks_ahead(each)]
        self._speculations = speculations
        self._work = work
        self._request_known = anyio.Event() if ahead else None
        self.began_at = monotonic()
        """When the model request was sent, or the turn created."""
        self.answer = AnswerStream()
        """The streamed answer, which the predictors read."""
        self._stop: Callable[[], None] | None = None
        self.calls_read: list[ToolCall] = []
        """Calls that predictors have read off the answer."""

    def __iter__(self) -> Iterator[Speculator]:
        """Iterate over the predictors, whether they are run or not."""
        return (each.speculator for each in self._predictors)

    def take(self, predictors: Sequence[Speculator]) -> None:
        """Take the predictors of a turn that is ahead, now that its request is known and about to be sent.

        The decision on one that has run already stands.
        """
        known = {id(each.speculator): each for each in self._predictors}  # which keeps them alive
        self._predictors = [known.get(id(each)) or _Predictor(each) for each in predictors]
        self.began_at = monotonic()
        if self._request_known is not None:
            self._request_known.set()

    def any_worth_running(self) -> bool:
        """Whether any predictor is to run in this turn; all of them are decided on."""
        decisions = [self._decision(predictor) for predictor in self._predictors]
        return any(decision.speculate for decision in decisions)

    def end(self) -> None:
        """End the answer, and cancel the predictors that go on."""
        self.answer.end()
        if self._stop is not None:
            self._stop()

    def teach(self, calls: Sequence[ToolCall]) -> None:
        """Let the predictors learn that the model has answered with these calls."""
        for predictor in self._predictors:
            learner = learner_of(predictor.speculator)
            if learner is not None:
                with contained(functools.partial(self._note_failure, predictor)):
                    learner.learn(self._input.request(), [copied_call(call) for call in calls])

    async def run(self, runs: SpeculativeRuns, drafting: TaskSet, *, may_run_coroutines: bool) -> None:
        """Run the predictors until all have ended; their drafts start tools in ``runs``.

        ``may_run_coroutines`` says whether tools that are coroutine functions may run on this loop.
        """
        call_soon = loop_caller()
        # A step later: a predictor that waits for the answer reads it to its end.
        self._stop = lambda: call_soon(functools.partial(call_soon, drafting.cancel_all))

        def start_all() -> None:
            for each in self._predictors:
                drafting.start(self._work.measured(self._draft, each, runs, may_run_coroutines), each.name)

        async def start_when_known(known: anyio.Event) -> None:
            await known.wait()  # once its result is known, all predictors run on it
            start_all()

        start_all()
        if self._request_known is not None:
            drafting.start(start_when_known(self._request_known), "a lookahead request")
        await drafting.over()

    async def _draft(self, predictor: _Predictor, runs: SpeculativeRuns, may_run_coroutines: bool) -> None:
        if self._speculations.cache.closed:  # answered already: speculations would only be cancelled
            return
        with contained(functools.partial(self._note_failure, predictor)):
            decision = self._decision(predictor)
            if not decision.speculate:
                return
            if not predictor.started:
                predictor.started = True
                self._note(events.PredictorStarted(self._input.number, predictor.name, decision.samples))
            left, began = _MAX_DRAFTS, monotonic()
            async for call in drafts_of(predictor.speculator, self._request_to(predictor, decision)):
                draft_s = monotonic() - self.began_at
                if reads_calls(predictor.speculator) and isinstance(call, ToolCall):
                    self._keep_read(call)
                await self._speculations.offer(
                    call,
                    predictor.name,
                    draft_s,
                    runs,
                    may_run_coroutines=may_run_coroutines,
                    predicted=not reads_answer(predictor.speculator),
                )
                await asyncio.sleep(0)  # a predictor that never awaits must not block the loop
                left -= 1
                if not left or self._speculations.cache.closed:
                    break
            if not self._speculations.cache.closed:
                self._note(events.PredictorEnded(self._input.number, predictor.name, monotonic() - began))

    def _request_to(self, predictor: _Predictor, decision: Decision) -> DraftRequest:
        return dataclasses.replace(
            self._input.request(),
            samples=decision.samples,
            speculable=self._input.permitted(),
            answer=self.answer,
            spend=lambda cost: self._note(events.PredictorCharged(self._input.number, predictor.name, cost)),
            affords=functools.partial(self._affords, predictor.name),
        )

    def _keep_read(self, call: ToolCall) -> None:
        # With an id, so that it does not count as made if it never comes.
        call_id = f"code_{self._input.number}_{len(self.calls_read)}"
        self.calls_read.append(dataclasses.replace(call, id=call_id))

    def _decision(self, predictor: _Predictor) -> Decision:
        """Return whether to run a predictor in this turn; decided once, and reported if not."""
        decision = predictor.decision
        if decision is None:
            decision = predictor.decision = self._decide(predictor)
            if not decision.speculate:
                self._note(events.PredictorSkipped(self._input.number, predictor.name, decision.reason))
        return decision

    def _decide(self, predictor: _Predictor) -> Decision:
        decision = self._shared.controller.should_predict(
            predictor.name,
            self._shared.samples,
            monotonic(),
            shares_cores=shares_cores(predictor.speculator),
        )
        if not decision.speculate or not self._input.tools:
            return decision
        # Asked last: finding the guards of a graph costs more than all of the above.
        with self._work.running():
            permitted, restrictions = self._input.permitted(), self._input.restrictions()
        if not permitted:
            return Decision(False, reason=next(iter(restrictions.refused.values())))
        if all(self._shared.watch.stopped(tool) for tool in permitted):
            return Decision(False, reason="none of the tools is run speculatively any more")
        return decision

    def _affords(self, predictor: str, cost: DraftCost) -> bool:
        spent = self._shared.controller.budget_spent(monotonic(), cost)
        if spent is not None:
            self._note(events.PredictorStopped(self._input.number, predictor, spent))
        return spent is None

    def _note_failure(self, predictor: _Predictor, error: BaseException) -> None:
        self._note(events.PredictorFailed(self._input.number, predictor.name, events.error_kind(error)))
