"""The drafts and speculations of one turn."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from ..calls import ToolCall
from ..calls.arguments import copied_call, copied_json
from ..concurrency.clock import monotonic
from ..concurrency.contained import contained, is_own_failure
from ..errors import ConfigurationError
from ..lookahead.ahead import AheadStarter
from ..reports.events import (
    DiscardFailed,
    DraftArrived,
    DraftJudged,
    DraftRefused,
    SubmissionRefused,
    error_kind,
)
from ..toolcache import FinishedCall, PredictedCall, TakePrediction, TakeResult, result_text
from ..tools.claims import PendingClaim, TurnRecorder
from ..tools.runner import SpeculativeRuns
from ..tools.scopes import TurnMark
from ..tools.speculable_tool import Invocation, SpeculableTool
from ..tools.speculation import Draft, Speculation
from ..tools.writes import write_log
from .shared import SharedState
from .turn_input import TurnInput

_MADE = "the model has made this call since the user's last message"
_DISCLOSES = "it would disclose arguments to a tool that was not called in this run"
_UNDECIDED = "its guard had not decided when the turn ended"


class _Bound(NamedTuple):
    """A draft with its tool, its validated arguments and its canonical key."""

    call: ToolCall
    tool: SpeculableTool
    invocation: Invocation
    key: str


class TurnSpeculations:
    """Starts the tools that are predicted during one model request, and keeps their speculations."""

    def __init__(self, shared: SharedState, input: TurnInput, starter: AheadStarter) -> None:
        """``starter`` is notified of each speculation that an ahead request may follow."""
        self._shared = shared
        self._reporter = shared.reporter
        self._input = input
        self._starter = starter
        self.recorder = TurnRecorder(shared.reporter, input.number, shared.spans)
        self._drafts: dict[tuple[str, str], Draft] = {}
        """The first draft of every different call by each predictor, run speculatively or not."""
        self.cache = FuturesCache(shared.config.max_speculations)
        self._started: list[tuple[ToolCall, Speculation]] = []
        self._takers: list[TakeResult] = []
        self._predicted: dict[str, PredictedCall] = {}
        self._prediction_takers: list[TakePrediction] = []

    async def offer(
        self,
        call: ToolCall,
        predictor: str,
        draft_s: float,
        runs: SpeculativeRuns,
        *,
        may_run_coroutines: bool,
        predicted: bool = True,
    ) -> None:
        """Start the drafted call's tool in ``runs``, unless it is refused; the report says why.

        ``predicted`` is False for a call that the model has made.
        """
        if self.cache.closed:  # a predictor that goes on after its turn
            return
        name = call.name if isinstance(call, ToolCall) and isinstance(call.name, str) else ""
        self._reporter.note(DraftArrived(self._input.number, predictor, name, draft_s))
        moment = write_log.now()
        bound = self._bind(call, name)
        if isinstance(bound, _Bound):
            draft, invalid = Draft(name, bound.key, predictor, draft_s), False
            refusal = await self._start(bound, draft, moment, runs, may_run_coroutines, predicted)
        else:
            refusal, invalid = bound
        if refusal:
            self._reporter.note(DraftRefused(self._input.number, predictor, name, refusal, invalid))

    def _bind(self, call: ToolCall, name: str) -> _Bound | tuple[str, bool]:
        """Return a draft with its tool; or why it cannot be run, and whether it is invalid."""
        if not isinstance(call, ToolCall):
            return f"an object of type {type(call).__name__} is no ToolCall", True
        tool = self._input.tools.get(name)
        if tool is None:
            return "no speculable tool of this name", True
        try:
            copied = copied_call(call)  # the predictor may change its own later
            invocation = tool.bind(copied_json(copied.arguments))  # and the tool those that it is run with
            return _Bound(copied, tool, invocation, tool.key(invocation))
        except ConfigurationError as error:
            return str(error), False
        except BaseException as error:  # validators and canonicalisers are the user's
            if not is_own_failure(error):
                raise
            return f"bad arguments ({type(error).__name__})", True

    async def _start(
        self,
        bound: _Bound,
        draft: Draft,
        moment: int,
        runs: SpeculativeRuns,
        may_run_coroutines: bool,
        predicted: bool,
    ) -> str | None:
        """Return why nothing was started; None also for a call that an earlier draft has started."""
        call, tool, invocation, key = bound
        predictor, draft_s = draft.predictor, draft.draft_s
        if predicted and key in self._input.history().keys:
            return _MADE
        self._drafts.setdefault((draft.predictor, draft.key), draft)
        if predicted:
            self._hand_out_prediction(call, tool, key)
        refused = self._input.restrictions().refused
        if tool.name in refused:
            return refused[tool.name]
        stopped = self._shared.watch.stopped(tool.name)
        if stopped is not None:
            return stopped
        as_coroutine = tool.speculative_acall is not None and may_run_coroutines
        if not as_coroutine and tool.speculative_call is None:
            return "a coroutine tool cannot run speculatively in a sync turn"
        if key in self.cache:
            return None
        # It would pass on values, to where the user does not trust, that are new there.
        discloses = predicted and tool.options.discloses and not tool.received.contain(call.arguments)
        if discloses and not (self._input.may_disclose or tool.name in self._input.history().called):
            return _DISCLOSES
        controller, cost = self._shared.controller, tool.options.cost
        decision = controller.should_run(predictor, tool.name, monotonic(), draft_s=draft_s, cost=cost)
        if not decision.speculate:
            return decision.reason
        try:
            guarded = await tool.why_guarded(invocation)
        except asyncio.CancelledError:
            self._reporter.note(DraftRefused(self._input.number, predictor, tool.name, _UNDECIDED))
            raise
        if guarded is not None:
            return guarded
        if not tool.slots.acquire(blocking=False):
            return "max_concurrency of the tool is reached"
        spent = controller.start_run(self._input.number, tool.name, monotonic(), cost)
        if spent is not None:
            tool.slots.release()
            return spent
        speculation = Speculation(
            draft,
            ttl=tool.options.ttl,
            cost=cost,
            needs_loop=as_coroutine,
            known=invocation.known,
            discloses=discloses,
            outdated=functools.partial(_outdated, tool.options.invalidated_by, self._input.scope, moment),
            on_wasted=self.recorder.wasted,
        )
        if not self.cache.add(speculation):
            tool.slots.release()
            controller.cancel_run(self._input.number, tool.name, cost)
            return None if self.cache.closed else "max_speculations of the turn is reached"
        self._started.append((call, speculation))
        for take in tuple(self._takers):
            self._hand_out_when_over(take, call, speculation)
        with self.recorder.running(speculation):
            runs.start(tool, invocation, speculation)
        if self._leaves_the_process(tool):
            self._starter.started(call, speculation)
        return None

    def note_discard_failure(self, tool: SpeculableTool, error: BaseException) -> None:
        """Report that discarding an unclaimed preparation has failed."""
        self._reporter.note(DiscardFailed(self._input.number, tool.name, type(error).__name__))

    def on_finished(self, take: TakeResult) -> None:
        """Call ``take`` with every speculation that succeeds; see ``Turn.on_finished``."""
        self._takers.append(take)
        for call, speculation in tuple(self._started):
            self._hand_out_when_over(take, call, speculation)

    def on_predicted(self, take: TakePrediction) -> None:
        """Call ``take`` with every predicted call; see ``Turn.on_predicted``."""
        self._prediction_takers.append(take)
        for each in tuple(self._predicted.values()):
            take(each)

    def _hand_out_prediction(self, call: ToolCall, tool: SpeculableTool, key: str) -> None:
        if key in self._predicted or not self._leaves_the_process(tool):
            return
        each = self._predicted[key] = PredictedCall(call, refused=self._refused_submission(call))
        for take in tuple(self._prediction_takers):
            take(each)

    def _refused_submission(self, call: ToolCall) -> Callable[[Exception], None]:
        return lambda error: self._reporter.note(
            SubmissionRefused(self._input.number, call.name, error_kind(error))
        )

    def _hand_out_when_over(self, take: TakeResult, call: ToolCall, speculation: Speculation) -> None:
        def hand_out() -> None:
            outcome = speculation.peek()
            if not (outcome.usable and self._leaves_the_process(self._input.tools[call.name])):
                return
            text = result_text(outcome.value)
            if text is not None:
                refused = self._refused_submission(call)
                take(FinishedCall(call, text, speculation.remaining_s, refused=refused))

        speculation.when_over(hand_out)

    def _leaves_the_process(self, tool: SpeculableTool) -> bool:
        """Whether the tool's result may be sent to a model or an engine before the model has made the call.

        That of a two-phase tool is known only once the real call commits it. What a tool reads of its run is
        compared with that of the call when it claims.
        """
        return (
            not tool.two_phase
            and not tool.options.reads
            and tool.name not in self._input.restrictions().unapproved
        )

    def judge(self, calls: Sequence[ToolCall]) -> list[str | None]:
        """Judge all drafts by the calls that the model has made; return the keys of these."""
        keys = [self._key_of(call) for call in calls]
        number = self._input.number
        for draft in tuple(self._drafts.values()):
            correct = draft.key in keys
            self._reporter.note(DraftJudged(number, draft.predictor, draft.tool, correct, draft.draft_s))
        return keys

    def leave_claims(self, calls: Sequence[ToolCall], keys: Sequence[str | None], mark: TurnMark) -> None:
        """Leave a pending claim at each called tool; ``mark`` is the turn's."""
        for call, key in zip(calls, keys, strict=True):
            tool = self._input.tools.get(call.name)
            if tool is not None:
                pending = self._pending_claim(call, tool, key)
                tool.pending_claims.add(call.id, pending, mark, self._input.scope)

    def take(self, calls: Sequence[ToolCall]) -> list[Speculation]:
        """Take the speculations of these calls, which the tools will not claim."""
        taken = [self.cache.take(key) for call in calls if (key := self._key_of(call)) is not None]
        return [speculation for speculation in taken if speculation is not None]

    def _key_of(self, call: ToolCall) -> str | None:
        """Return a call's key; None if its tool is not speculable or refuses the arguments."""
        tool = self._input.tools.get(call.name)
        if tool is not None:
            with contained(lambda error: None):
                return tool.key_of(call.arguments)
        return None

    def _pending_claim(self, call: ToolCall, tool: SpeculableTool, key: str | None) -> PendingClaim:
        """Return the pending claim of a call with ``key``, None if it has none."""
        if key is None:
            reason = tool.why_no_key(call.arguments)
            return PendingClaim(None, None, self.recorder, reason, call_id=call.id)
        speculation, reason = self.cache.take(key), self.cache.why_missing(key)
        arguments = call.arguments if tool.options.discloses else None
        if speculation is not None:
            speculation.expect()
            return PendingClaim(key, speculation, self.recorder, call_id=call.id, arguments=arguments)
        drafted_s = [draft.draft_s for draft in tuple(self._drafts.values()) if draft.key == key]
        draft_s = None if key in self.cache else min(drafted_s, default=None)
        if draft_s is not None:
            reason = "predicted, but not run speculatively"
        return PendingClaim(key, None, self.recorder, reason, draft_s, call.id, arguments)

    def cancel(self, reason: str) -> None:
        """Cancel the speculations that are still running."""
        for _, speculation in self._started:
            speculation.cancel(reason)

    def drop(self, reason: str) -> None:
        """Drop every speculation that was not claimed."""
        for _, speculation in self._started:
            speculation.drop(reason)


def _outdated(writers: Sequence[str], scope: Hashable, moment: int) -> str | None:
    written = write_log.written_since(moment, scope, writers) if writers else None
    return None if written is None else f"{written} was called meanwhile"


class FuturesCache:
    """The speculations of one turn by canonical key. Thread-safe.

    It is bounded and single-flight: one key runs once, and at most ``max_entries`` keys run. Each speculation
    is taken at most once. After :meth:`close` nothing can be added.
    """

    def __init__(self, max_entries: int) -> None:
        """``max_entries`` counts all speculations that are ever added."""
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: dict[str, Speculation] = {}
        self._added: set[str] = set()
        self.closed = False
        """Whether the cache refuses additions."""

    def __contains__(self, key: str) -> bool:
        """Whether this key has been added, even if its speculation has been taken."""
        with self._lock:
            return key in self._added

    def add(self, speculation: Speculation) -> bool:
        """Add ``speculation``; return False if its key was added before, or the cache is full or closed."""
        key = speculation.draft.key
        with self._lock:
            if self.closed or key in self._added or len(self._added) >= self._max_entries:
                return False
            self._added.add(key)
            self._entries[key] = speculation
            return True

    def take(self, key: str) -> Speculation | None:
        """Remove and return the speculation of ``key`` if it is usable; drop it if it is not any more."""
        with self._lock:
            speculation = self._entries.get(key)
            why = None if speculation is None else speculation.why_unusable()
            if speculation is not None and why is None:
                del self._entries[key]
        if speculation is None or why is None:
            return speculation
        speculation.drop(why)
        return None

    def why_missing(self, key: str) -> str:
        """Return why :meth:`take` has returned None for ``key``."""
        with self._lock:
            speculation = self._entries.get(key)
        if speculation is not None:
            return speculation.lost_because
        return "taken by an equal call" if key in self else "not predicted"

    def close(self, reason: str) -> None:
        """Refuse additions from now on, and drop the remaining speculations for ``reason``."""
        with self._lock:
            self.closed = True
            remaining = list(self._entries.values())
            self._entries.clear()
        for speculation in remaining:
            speculation.drop(reason)
