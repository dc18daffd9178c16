"""The client's half of the engine-side tool cache (SpecTools §3.2, Algorithm 4).

While the model writes an answer, results of finished speculations are submitted to its engine. When the model
makes such a call, the engine answers it and goes on decoding, so that no further request is needed. A model
that cannot take results never reads them, and everything works as without a cache (Algorithm 2).

Calls are also submitted when they are predicted, before their results are known, to an engine that drafts
their tokens: the model then writes the call faster.

An adapter that speculates sets the source of results with :func:`offering_results`. A model that can take
results reads it with :func:`current_result_source` and reports which calls were answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from .calls import ToolCall

__all__ = [
    "FinishedCall",
    "PredictedCall",
    "ResultSource",
    "TakePrediction",
    "TakeResult",
    "current_result_source",
    "offering_results",
    "result_text",
]


@dataclass(frozen=True, slots=True)
class PredictedCall:
    """A call that the model is expected to make."""

    call: ToolCall
    refused: Callable[[Exception], None] = field(
        default=lambda error: None, compare=False, repr=False, kw_only=True
    )
    """Reports the error for which the engine did not take it. Called from any thread."""


@dataclass(frozen=True, slots=True)
class FinishedCall(PredictedCall):
    """A call that was run speculatively, and its result as text."""

    text: str
    keep_alive_s: float
    """For how many seconds the result may be used: the rest of the tool's ``ttl``."""


TakePrediction: TypeAlias = Callable[[PredictedCall], None]
"""Takes a predicted call. Called from any thread; must not block."""

TakeResult: TypeAlias = Callable[[FinishedCall], None]
"""Takes a result. Called from any thread; must not block."""


class ResultSource(Protocol):
    """Speculated results for one answer, which continues behind the calls that the engine answers."""

    def take_results(self, take: TakeResult) -> None:
        """Call ``take`` with every result: those of speculations that have finished, and later ones."""

    def take_predictions(self, take: TakePrediction) -> None:
        """Call ``take`` with every call that was predicted, and with later ones."""

    def answered(self, calls: Sequence[tuple[ToolCall, str]]) -> None:
        """Record that the engine answered these calls of one turn, and that the next turn has begun."""


_current: ContextVar[ResultSource | None] = ContextVar("agentrt_result_source", default=None)


@contextmanager
def offering_results(source: ResultSource | None) -> Iterator[None]:
    """Offer the results of ``source`` to model requests made inside the block; None offers none."""
    token = _current.set(source)
    try:
        yield
    finally:
        _current.reset(token)


def current_result_source() -> ResultSource | None:
    """Return the source set by the innermost :func:`offering_results`, or None."""
    return _current.get()


def result_text(value: Any) -> str | None:
    """Return a tool's result as the text of its message; None if it is neither text nor JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
