"""The interface between a speculation session and whoever guesses the next tool call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .calls import ToolCall


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What the main model was asked, in the shape of OpenAI's chat completions.

    ``messages`` is the history, ``tools`` the function tools on offer, and ``samples`` how many guesses
    to take (SpecTools' λ). A predictor must not change them: they are the main call's own.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    samples: int = 1


@runtime_checkable
class Speculator(Protocol):
    """Guesses the next tool call while the main model is still generating."""

    def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield each guess as soon as it is there; yield none if no tool call is expected.

        Runs on an event loop beside the main call and must not block it. It is cancelled as soon as the
        main model has answered. Raising is harmless: it is reported, and the main call never notices.
        """
        ...
