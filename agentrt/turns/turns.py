"""The turns of one speculating model, client or agent, and the runs that they belong to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Self
from weakref import WeakSet

from ..argument_checks import check_setting
from ..concurrency.hosts import Host, RunningLoopHost, running_loop, worker_loop
from ..config import SpeculationConfig
from ..drafts import DraftRequest, Speculator, predictors_of
from ..errors import ConfigurationError
from ..lookahead.model_request import ModelRequest
from ..reports.events import SpeculationObserver
from ..reports.report import SpeculationReport
from ..tools.restrictions import Guards, restrictions
from ..tools.scopes import current_scope
from ..tools.speculable_tool import SpeculableTool
from .shared import SharedState
from .turn import Turn
from .turn_input import TurnInput


class Run:
    """A run of an agent that ends what its turns have started.

    Give it to :meth:`~agentrt.adapting.Turns.start` where the framework says when a run begins and ends. Its
    calls are claimed with its ``scope``.
    """

    def __init__(self, scope: Hashable = None, *, blocking: bool = False) -> None:
        """``scope`` None is one of its own. ``blocking`` as for :meth:`~agentrt.adapting.Turns.start`.

        Raises:
            ConfigurationError: ``scope`` is not hashable.
        """
        check_setting("scope", scope, Hashable, "a hashable value, such as the run's id")
        self.scope = object() if scope is None else scope
        self._own_host = None if blocking else RunningLoopHost()
        self._turns: WeakSet[Turn] = WeakSet()

    @property
    def host(self) -> Host:
        """Where the predictors of its turns run."""
        return worker_loop if self._own_host is None else self._own_host

    def add(self, turn: Turn) -> None:
        """Take a turn that was started for the run."""
        self._turns.add(turn)

    def close(self) -> None:
        """Cancel all speculations of the run, also those that could still be claimed."""
        for turn in list(self._turns):
            turn.abandon()

    async def aclose(self) -> None:
        """:meth:`close`, and wait until their coroutines have ended. Threads go on."""
        self.close()
        if self._own_host is not None:
            await self._own_host.aclose()


_NOT_OFFERED = "the tool is not offered in this turn"


class Turns:
    """Speculates beside the model requests of one model, client or agent; has its settings and its report.

    :meth:`start` opens a turn beside a request that is about to be sent. It serves any number of runs at one
    time. A deep copy is the object itself: copies of a model learn from, and report to, the same state.
    """

    def __init__(
        self,
        predictors: Any,
        *,
        samples: int = 1,
        config: SpeculationConfig | None = None,
        observers: Sequence[SpeculationObserver] = (),
        others: tuple[type, ...] = (),
        without_ahead: str | None = None,
    ) -> None:
        """``predictors`` is one predictor or several; each takes ``samples`` samples (SpecTools' λ).

        Without a predictor, turns only match calls. ``others`` are types that the caller takes beside
        :class:`~agentrt.speculators.Speculator`, and makes predictors of for each turn. ``without_ahead``
        says why ``turn_ahead`` of ``config`` cannot be used here, and what to do instead; None if it can.

        Raises:
            ConfigurationError: an argument is of the wrong kind, or ``turn_ahead`` is set and cannot be used.
        """
        self.predictors: tuple[Any, ...] = predictors_of(predictors, others=others)
        self._shared = SharedState.create(samples, config, observers)
        if without_ahead is not None and self._shared.config.turn_ahead is not None:
            raise ConfigurationError(without_ahead)

    def __deepcopy__(self, memo: object) -> Self:
        """Return the object itself."""
        return self

    def start(
        self,
        request: Callable[[], DraftRequest],
        *,
        tools: Mapping[str, SpeculableTool],
        offered: Collection[str] | None = None,
        refused: Mapping[str, str] = MappingProxyType({}),
        guards: Callable[[], Guards] = Guards,
        answered: Collection[str] = (),
        rejected: Collection[str] = (),
        run: Run | None = None,
        blocking: bool = False,
        predictors: Sequence[Speculator] | None = None,
        ahead: Callable[[], ModelRequest | None] | None = None,
    ) -> Turn:
        """Start a turn beside a model request that is sent in this context; use it as a context manager.

        ``request`` returns the history and the tools for the predictors, in the shape of chat completions. It
        is called while the model answers, so it does not delay the request. ``tools`` are the speculable ones
        by name, ``offered`` the names of all that the model may call in its answer, None if they are unknown.
        ``refused`` says why further ones must not run in this turn, whatever their options. ``guards``
        returns what the run has to ask before a call; it is called here, and only if a predictor is worth
        running. ``answered`` are the ids of the calls whose results end the history, and ``rejected`` those
        that ended in an error or a refusal: without them a call that was made past its tool counts as one
        still to come.

        ``run`` is the run, where the framework tells its beginning and end; otherwise it is that of the
        context (:func:`~agentrt.adapting.current_scope`). ``blocking`` says that the request is sent by code
        without an event loop: predictors then run on a loop of agentrt's, and tools that are coroutine
        functions do not run speculatively. ``predictors`` are those of this turn, if they are others than
        those of the model. ``ahead`` returns the request as one that others can be sent ahead after
        (``turn_ahead``), None if it cannot be: the turn may then have an answer already, see
        :meth:`Turn.lookahead_answer`.
        """
        shared = self._shared
        if offered is not None:
            refused = {**refused, **{name: _NOT_OFFERED for name in tools if name not in offered}}
        scope = current_scope() if run is None else run.scope
        main = self._sendable(ahead)
        taken = shared.ahead.take(scope, "" if main is None else main.key) if shared.ahead.enabled else None
        if taken is not None:
            turn: Turn = taken.turn
            turn.take_answer_of(taken)
        else:
            input = TurnInput(
                shared.reporter.next_turn(),
                tools=tools,
                scope=scope,
                samples=shared.samples,
                request=request,
                restrictions=functools.partial(restrictions, tools, refused, guards),
            )
            turn = Turn(shared, input, self.predictors if predictors is None else predictors, main=main)
        if run is not None:
            run.add(turn)
        turn.begin(answered, rejected)
        if taken is None:
            host = worker_loop if blocking else running_loop
            turn.start(host if run is None else run.host)
        return turn

    def _sendable(self, ahead: Callable[[], ModelRequest | None] | None) -> ModelRequest | None:
        """Return the request if turn-ahead is on and equal requests would be recognised by its key."""
        if ahead is not None and self._shared.ahead.enabled:
            with suppress(Exception):  # a history that cannot be compared, or that the model will refuse
                request = ahead()
                return request if request is not None and request.key else None
        return None

    def end_run(self, run: Run) -> None:
        """Forget the requests that were sent ahead for a run that has ended."""
        self._shared.ahead.forget(run.scope)

    def report(self) -> SpeculationReport:
        """Return the report on all turns so far."""
        return self._shared.reporter.report()
