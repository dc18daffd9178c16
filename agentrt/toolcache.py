"""Results of early runs, on their way to a model that can use them before its answer ends (SpecTools §3.2).

The client's half of the engine-side tool cache, Algorithm 4: while the model writes an answer, what early
runs have given by then is submitted to its engine; when the model makes such a call, the engine answers it
and goes on, and no request has to be made in between. A model that cannot do this never asks for results,
and everything stays as it is without (Algorithm 2).

A speculating adapter puts the turns of an answer in force with :func:`submitting`. A model that can take
results finds them there with :func:`answering`, and says which calls were answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from .calls import ToolCall

TakeResult: TypeAlias = Callable[[ToolCall, str], None]
"""Takes a call and its result as text. Called from any thread, and must not block."""


class Answering(Protocol):
    """The turns of one answer, which goes on behind calls that were answered on the way."""

    def take_results(self, take: TakeResult) -> None:
        """Hand every result of an early run to ``take``, those that are there and those that will come."""
        ...

    def answered(self, calls: Sequence[tuple[ToolCall, str]]) -> None:
        """Take note that these calls of one turn were answered, and that the next turn has begun."""
        ...


_in_force: ContextVar[Answering | None] = ContextVar("agentrt_answering", default=None)


@contextmanager
def submitting(answering: Answering | None) -> Iterator[None]:
    """Let a model that is asked inside the block take the results of ``answering``; None for nobody's."""
    token = _in_force.set(answering)
    try:
        yield
    finally:
        _in_force.reset(token)


def answering() -> Answering | None:
    """Where results come from here; None if nobody speculates."""
    return _in_force.get()


def result_text(value: Any) -> str | None:
    """What a tool gave as the text of its message; None if it is not text and cannot be JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
