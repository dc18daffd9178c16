"""What happens while agentrt speculates, as typed events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..drafts import DraftCost


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A model call began; ``turn`` numbers the calls of one report from 1."""

    turn: int


@dataclass(frozen=True, slots=True)
class PredictorAsked:
    """A predictor was asked for ``samples`` guesses."""

    turn: int
    predictor: str
    samples: int


@dataclass(frozen=True, slots=True)
class PredictorSkipped:
    """A predictor was not asked; ``reason`` says why."""

    turn: int
    predictor: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftArrived:
    """A predictor guessed a call of ``tool``, ``after_s`` seconds into the turn."""

    turn: int
    predictor: str
    tool: str
    after_s: float


@dataclass(frozen=True, slots=True)
class DraftRefused:
    """A guess started nothing; ``reason`` says why. Repeated guesses of one call are not refused."""

    turn: int
    predictor: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftJudged:
    """The model has answered, and a guess of a speculable tool's call was right or not.

    Noted once for each different call that a predictor guessed in a turn, whether the guess was run,
    had been run for another predictor, or was only recorded; before the turn's :class:`TurnAnswered`.
    """

    turn: int
    predictor: str
    tool: str
    correct: bool
    draft_s: float


@dataclass(frozen=True, slots=True)
class PredictorCharged:
    """A predictor said what asking it has cost."""

    turn: int
    predictor: str
    cost: DraftCost


@dataclass(frozen=True, slots=True)
class PredictorFailed:
    """A predictor raised; the main call did not notice."""

    turn: int
    predictor: str
    error: str


@dataclass(frozen=True, slots=True)
class SpeculationStarted:
    """An early run of ``tool`` began, because ``predictor`` guessed its call."""

    turn: int
    tool: str
    predictor: str = ""


@dataclass(frozen=True, slots=True)
class TurnAnswered:
    """The main model answered after ``generation_s`` seconds, calling ``tools`` in this order."""

    turn: int
    generation_s: float
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallClaimed:
    """A call was answered by a speculation (a hit).

    The tool ran ``tool_s`` seconds, of which the agent waited ``waited_s``; the draft had come
    ``draft_s`` seconds into the turn, from ``predictor``.
    """

    turn: int
    tool: str
    tool_s: float
    waited_s: float
    draft_s: float
    predictor: str = ""

    @property
    def saved_s(self) -> float:
        """The seconds of the tool's run that the agent did not wait for."""
        return max(0.0, self.tool_s - self.waited_s)


@dataclass(frozen=True, slots=True)
class CallMissed:
    """A call of a speculable tool was run for real and took ``tool_s`` seconds.

    ``draft_s`` is when in its turn the call had been guessed, if it had been and was not run early: in
    shadow mode, or because the controller or a bound spoke against it.
    """

    turn: int
    tool: str
    tool_s: float
    reason: str
    draft_s: float | None = None


@dataclass(frozen=True, slots=True)
class SpeculationWasted:
    """An early run was not used; the tool had run ``ran_s`` seconds by then, and costs ``cost`` a run."""

    turn: int
    tool: str
    ran_s: float
    reason: str
    predictor: str = ""
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class DiscardFailed:
    """Discarding a preparation of ``tool`` that no call asked for raised ``error``."""

    turn: int
    tool: str
    error: str


@dataclass(frozen=True, slots=True)
class AheadStarted:
    """The main model was asked ahead of its turn, in which ``turn`` is the number of the call."""

    turn: int


@dataclass(frozen=True, slots=True)
class AheadKept:
    """The request of ``turn`` came as expected, ``saved_s`` seconds of its answer after it had begun."""

    turn: int
    saved_s: float


@dataclass(frozen=True, slots=True)
class AheadWasted:
    """The request of ``turn`` did not come; the main model had been at it for ``ran_s`` seconds."""

    turn: int
    ran_s: float
    reason: str


SpeculationEvent: TypeAlias = (
    TurnStarted
    | PredictorAsked
    | PredictorSkipped
    | DraftArrived
    | DraftRefused
    | DraftJudged
    | PredictorCharged
    | PredictorFailed
    | SpeculationStarted
    | TurnAnswered
    | CallClaimed
    | CallMissed
    | SpeculationWasted
    | DiscardFailed
    | AheadStarted
    | AheadKept
    | AheadWasted
)


class SpeculationObserver(Protocol):
    """Sees every event as it happens, from whichever thread it happens in; must not block.

    Events name tools and predictors, never arguments or results. An exception is logged and dropped.
    """

    def on_event(self, event: SpeculationEvent) -> None:
        """Take note of ``event``."""
        ...
