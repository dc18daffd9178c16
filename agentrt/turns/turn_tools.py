"""The early runs of one turn: which are started, and who gets what they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from anyio.abc import TaskGroup

from ..calls import ToolCall
from ..concurrency.clock import monotonic
from ..lookahead.follower import AheadStarter
from ..reports.events import DiscardFailed, DraftArrived, DraftRefused, SpeculationStarted
from ..reports.reporter import TurnRecorder
from ..tools.claims import Ticket
from ..tools.runner import start_early
from ..tools.speculable import SpeculableTool
from ..tools.speculation import FuturesCache, Speculation
from ..tools.writes import write_log
from .drafts import DraftRecord, DraftRecords
from .shared import SharedState

RunListener = Callable[[ToolCall, Any], None]


class TurnSpeculations:
    """Starts the tools that are guessed beside one call of the main model, and keeps what they come to."""

    def __init__(
        self,
        context: SharedState,
        tools: Mapping[str, SpeculableTool],
        scope: Hashable,
        turn: int,
        following: AheadStarter[Any],
    ) -> None:
        """Nothing runs yet; ``following`` is told what does."""
        self._context = context
        self._reporter = context.reporter
        self._tools = tools
        self._scope = scope
        self._turn = turn
        self._following = following
        self.recorder = TurnRecorder(context.reporter, turn)
        self.drafts = DraftRecords()
        self.cache = FuturesCache(context.config.max_speculations)
        self._runs: list[tuple[ToolCall, Speculation]] = []
        self._listeners: list[RunListener] = []

    def offer(
        self, call: ToolCall, predictor: str, draft_s: float, group: TaskGroup, *, may_run_coroutines: bool
    ) -> None:
        """Start in ``group`` the tool that ``call`` guesses, unless something speaks against it."""
        self._reporter.note(DraftArrived(self._turn, predictor, call.name, draft_s))
        refusal = self._start(call, predictor, draft_s, group, may_run_coroutines)
        if refusal:
            self._reporter.note(DraftRefused(self._turn, predictor, call.name, refusal))

    def _start(
        self, call: ToolCall, predictor: str, draft_s: float, group: TaskGroup, may_run_coroutines: bool
    ) -> str | None:
        tool = self._tools.get(call.name)
        if tool is None:
            return "no speculable tool of this name"
        moment = write_log.now()
        try:
            invocation = tool.bind(call.arguments)
            key = tool.key(invocation)
        except Exception as error:  # noqa: BLE001 - validators and canonicalisers are the user's
            return f"bad arguments ({type(error).__name__})"
        self.drafts.add(DraftRecord(predictor, key, tool.name, draft_s))
        as_coroutine = tool.aearly is not None and may_run_coroutines
        if not as_coroutine and tool.early is None:
            return "a coroutine tool cannot run early in a sync turn"
        if key in self.cache:
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
            on_wasted=self.recorder.wasted,
        )
        if not self.cache.add(speculation):
            tool.slots.release()
            return None if self.cache.closed else "max_speculations of the turn is reached"
        self._runs.append((call, speculation))
        for listener in tuple(self._listeners):
            self._tell_when_over(listener, call, speculation)
        self._reporter.note(SpeculationStarted(self._turn, tool.name, predictor))
        start_early(tool, invocation, speculation, group, self._note_discard_failure)
        if not tool.two_phase:  # whose result is not known before the real call
            self._following.started(call, speculation)
        return None

    def _note_discard_failure(self, tool: SpeculableTool, error: BaseException) -> None:
        self._reporter.note(DiscardFailed(self._turn, tool.name, type(error).__name__))

    def on_finished(self, listener: RunListener) -> None:
        """Tell ``listener`` of every speculation that ends well; see ``Turn.on_finished``."""
        self._listeners.append(listener)
        for call, speculation in tuple(self._runs):
            self._tell_when_over(listener, call, speculation)

    def _tell_when_over(self, listener: RunListener, call: ToolCall, speculation: Speculation) -> None:
        def tell() -> None:
            outcome = speculation.peek()
            if outcome.usable and not self._tools[call.name].two_phase:
                listener(call, outcome.value)

        speculation.when_over(tell)

    def ticket(self, key: str | None) -> Ticket:
        """What the call with this key is to find at its tool; None where the tool will refuse it."""
        if key is None:
            return Ticket(None, None, self.recorder, "its arguments are not valid")
        speculation, reason = self.cache.take(key), self.cache.why_missing(key)
        if speculation is not None:
            speculation.expect()
            return Ticket(key, speculation, self.recorder)
        guessed_s = None if key in self.cache else self.drafts.first_s(key)
        if guessed_s is not None:
            reason = "guessed, but not run early"
        return Ticket(key, None, self.recorder, reason, guessed_s)

    def cancel(self, reason: str) -> None:
        """Cancel what is still running."""
        for _, speculation in self._runs:
            speculation.cancel(reason)

    def drop(self, reason: str) -> None:
        """Give everything up that was not claimed."""
        for _, speculation in self._runs:
            speculation.drop(reason)


def _outdated(writers: Sequence[str], scope: Hashable, moment: int) -> str | None:
    written = write_log.written_since(moment, scope, writers) if writers else None
    return None if written is None else f"{written} was called meanwhile"
