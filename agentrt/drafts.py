"""The interface between a speculation session and whoever guesses the next tool call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .answers import AnswerStream
from .calls import ToolCall


@dataclass(frozen=True, slots=True)
class DraftCost:
    """What asking a predictor once has cost: tokens read and written, and money, in the user's currency."""

    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0


def _keep_no_account(cost: DraftCost) -> None:
    pass


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What the main model was asked, in the shape of OpenAI's chat completions.

    ``messages`` is the history, ``tools`` the function tools on offer, and ``samples`` how many guesses
    to take (SpecTools' λ). A predictor must not change them: they are the main call's own. ``answer`` is
    what the main model writes meanwhile, where the caller streams it. ``speculable`` names the tools that
    may be run early, None where that is not known: guesses of others are of no use. ``ahead`` says that the
    last message is a call whose result is not there yet. A predictor whose guesses cost something says so
    with ``spend``, from any thread.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    samples: int = 1
    speculable: Collection[str] | None = None
    ahead: bool = False
    answer: AnswerStream = field(default_factory=AnswerStream, compare=False, repr=False)
    spend: Callable[[DraftCost], None] = field(default=_keep_no_account, compare=False, repr=False)


@runtime_checkable
class Speculator(Protocol):
    """Guesses the next tool call while the main model is still generating.

    One predictor serves any number of turns at one time. An attribute ``name`` is what reports call it. One
    whose ``looks_ahead`` is true can also guess what comes after a call whose result is not in the messages
    yet. It is asked so where the main model may be asked ahead (:mod:`agentrt.lookahead`), and once more when
    the result is there.
    """

    def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield each guess as soon as it is there; yield none if no tool call is expected.

        Runs on an event loop beside the main call and must not block it. It is cancelled as soon as the
        main model has answered. Raising is harmless: it is reported, and the main call never notices.
        """
        ...


@runtime_checkable
class Learner(Protocol):
    """What a predictor also is that learns from the calls the main model really makes."""

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        """Take note that the main model answered ``request`` with ``calls``, which may be none.

        Called once for each answered turn, in whichever thread the model answered, before the calls are
        made: their results are in the messages of the next request. Must return at once.
        """
        ...


def looks_ahead(predictor: Speculator) -> bool:
    """Whether a predictor can guess what comes after a call whose result is not there yet."""
    return bool(getattr(predictor, "looks_ahead", False))
