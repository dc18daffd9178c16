"""Scopes of runs, and the turns of contexts: a speculation can be claimed only within its own run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from ..argument_checks import check_setting
from ..errors import ConfigurationError

ScopeSource = Callable[[], Hashable | None]
"""Returns a key of the run of this code, as a framework knows it, or None."""

ToolSeconds = Callable[[Collection[str]], Mapping[str, float]]
"""Returns for how many seconds the tools of these names usually run, without those never seen to run."""

_scope: ContextVar[Hashable | None] = ContextVar("agentrt_scope", default=None)
_may_disclose: ContextVar[bool] = ContextVar("agentrt_may_disclose", default=False)
_turn: ContextVar[TurnMark | None] = ContextVar("agentrt_turn", default=None)
_sources: list[ScopeSource] = []
_NO_RUN = object()


def run_scope(key: Hashable, *, may_disclose: bool = False) -> AbstractContextManager[None]:
    """Mark the work inside the block as the run ``key``, such as the id of a conversation or user.

    A call is answered only from a speculation of its own run, even if an endpoint gives calls of different
    runs equal ids. A :class:`~agentrt.SpeculationSession` is a run of its own, and the runs of LangGraph and
    pydantic-ai have scopes already; use this where one context or thread serves many users without either.

    ``may_disclose`` permits speculative runs, in this block, of tools that are declared
    ``@speculable(discloses=True)``, whatever their arguments.

    Raises:
        ConfigurationError: ``key`` is None, which would be no run, or cannot be compared by its hash.
    """
    try:
        usable = key is not None and hash(key) is not None
    except TypeError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"run_scope() cannot use a key of type {type(key).__name__}. Give a text or number that "
            "identifies the run, such as the id of its user or conversation."
        )
    return within_scope(key, may_disclose=may_disclose)


@contextmanager
def within_scope(key: Hashable | None, *, may_disclose: bool | None = None) -> Iterator[None]:
    """Mark the work inside the block as the run ``key``; None is for one that a framework may know.

    ``may_disclose`` None leaves :func:`disclosure_permitted` as it is.
    """
    previous = _scope.get(), _may_disclose.get()
    _scope.set(key)
    _may_disclose.set(previous[1] if may_disclose is None else may_disclose)
    try:
        yield
    finally:
        # No tokens: a session may be closed in another context than it was opened in.
        _scope.set(previous[0])
        _may_disclose.set(previous[1])


def disclosure_permitted() -> bool:
    """Whether this code is within a :func:`run_scope` with ``may_disclose``."""
    return _may_disclose.get()


def register_scope_source(source: ScopeSource) -> None:
    """Let :func:`current_scope` ask ``source`` where there is no :func:`run_scope`.

    Raises:
        ConfigurationError: ``source`` cannot be called.
    """
    check_setting(
        "source", source, object if callable(source) else (), "a function that returns the run's id, or None"
    )
    _sources.append(source)


def current_scope() -> Hashable | None:
    """Return the key of the innermost :func:`run_scope`, else that of a framework's run, or None."""
    scope = _scope.get()
    if scope is not None:
        return None if scope is _NO_RUN else scope
    for source in _sources:
        scope = source()
        if scope is not None:
            return scope
    return None


def leave_run() -> None:
    """Let this context belong to no run and no turn, until it enters others."""
    _scope.set(_NO_RUN)
    _turn.set(None)


class TurnMark:
    """A turn, as the contexts know it in which its request was sent and its calls are made.

    Where the run has no scope, the mark stands for it: tasks and threads that copy the context belong to it.
    """

    __slots__ = ("before", "begun", "run", "tool_seconds")

    def __init__(self, before: TurnMark | None = None) -> None:
        """``before`` is the mark of the turn before it in the same context."""
        self.before = before
        self.begun = False
        self.run: Hashable = None
        self.tool_seconds: ToolSeconds | None = None


def current_turn() -> TurnMark | None:
    """Return the mark of the turn whose calls this context makes, or None."""
    return _turn.get()


def expected_tool_seconds(tools: Collection[str]) -> Mapping[str, float]:
    """Return for how many seconds ``tools`` usually run, as the turn knows it whose request is sent here.

    It is empty outside of a turn, and has no tool that was never seen to run.
    """
    turn = _turn.get()
    return {} if turn is None or turn.tool_seconds is None else turn.tool_seconds(tools)


def reserve_turn() -> None:
    """Reserve the mark of a turn that will begin in a task made from this context.

    What such a task sets in its own context is not seen here, where the calls are made.
    """
    before = _turn.get()
    if before is not None and not before.begun:  # no turn has begun since it was reserved
        before = before.before
    _turn.set(TurnMark(before))


def begin_turn(
    run: Hashable = None, tool_seconds: ToolSeconds | None = None
) -> tuple[TurnMark, TurnMark | None]:
    """Return the mark of a turn that begins in this context, and that of the turn before it, if any.

    ``run`` identifies the run as far as it is known: a turn of another run is not the one before.
    ``tool_seconds`` is what :func:`expected_tool_seconds` asks in this context.
    """
    mark = _turn.get()
    if mark is None or mark.begun:
        mark = TurnMark(mark)
        _turn.set(mark)
    before, mark.before = mark.before, None
    mark.begun, mark.run, mark.tool_seconds = True, run, tool_seconds
    return mark, before if before is not None and before.run == run else None
