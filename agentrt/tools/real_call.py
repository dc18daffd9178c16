"""What belongs to the real call alone: a speculative run that uses it is a miss."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, NoReturn

from ..concurrency.detached import VARIABLES_OF_RUNS
from ..errors import SpeculationError


class SpeculativeRun:
    """One speculative run of a tool, and what it has used that belongs to the real call."""

    def __init__(self, tool: str) -> None:
        """``tool`` is its name."""
        self.tool = tool
        self.used: list[str] = []

    def refuse(self, what: str) -> NoReturn:
        """Make the run a miss: it uses ``what`` only the real call has.

        Raises:
            SpeculationError: always.
        """
        self.used.append(what)
        raise self.error(what)

    def error(self, what: str) -> SpeculationError:
        """Return the error of a run that uses ``what``."""
        return SpeculationError(
            f"{self.tool} uses {what}, which belongs to the real call. It runs when the model calls it."
        )


_current: ContextVar[SpeculativeRun] = ContextVar("agentrt_speculative_run")


def current_speculative_run() -> SpeculativeRun:
    """Return the run around this code; an adapter asks where it gives stand-ins to a tool.

    Raises:
        LookupError: there is none.
    """
    return _current.get()


@contextmanager
def speculative_run(tool: str) -> Iterator[SpeculativeRun]:
    """Run the tool of this name in the block.

    There is no LangChain run in the block. Looking for one (an interrupt, a stream writer, the configuration,
    or a graph of its own, which would end its interrupts here instead of in the run around it) is such a use.

    Raises:
        SpeculationError: at the end of the block, if the tool has used something, also where it has caught
            the error that this raised.
    """
    run = SpeculativeRun(tool)
    current = _current.set(run)
    hidden = [
        (variable, variable.set({"configurable": _NoRun(run)}))
        for variable in copy_context()
        if variable.name in VARIABLES_OF_RUNS
    ]
    try:
        yield run
    finally:
        for variable, token in hidden:
            variable.reset(token)
        _current.reset(current)
    if run.used:
        raise run.error(run.used[0])


_THE_RUN = "the LangChain run around it"


class _NoRun(dict[str, Any]):
    """The ``configurable`` where no LangChain run is: whoever looks into it is told so.

    A runnable that a tool calls may copy it on, which tells nothing of the run. LangGraph leaves out what is
    empty, so it has an entry, which no one knows.
    """

    def __init__(self, run: SpeculativeRun) -> None:
        super().__init__({"__agentrt_no_run": True})
        self._run = run

    def __getitem__(self, key: str) -> NoReturn:
        self._run.refuse(_THE_RUN)

    def __contains__(self, key: object) -> bool:
        self._run.refuse(_THE_RUN)

    def get(self, key: str, default: Any = None) -> Any:
        # Every runnable begins with ensure_config, which looks for what to name in traces. A tool that looks
        # itself may ask for the same entries, so the caller tells them apart.
        if sys._getframe(1).f_code.co_name != "ensure_config":
            self._run.refuse(_THE_RUN)
        return default

    def copy(self) -> _NoRun:
        return self


def is_hidden_run(configurable: object) -> bool:
    """Whether this ``configurable`` stands where a speculative run sees none."""
    return isinstance(configurable, _NoRun)
