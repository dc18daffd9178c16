"""The events of speculation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ..concurrency.clock import monotonic
from ..drafts import DraftCost


@dataclass(frozen=True, slots=True)
class SpeculationEvent:
    """What all events have: the turn, and ``at_s``, in seconds of agentrt's monotonic clock.

    ``turn`` numbers the model requests of one report from 1.
    """

    turn: int
    at_s: float = field(default_factory=monotonic, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class TurnStarted(SpeculationEvent):
    """A model request began."""


@dataclass(frozen=True, slots=True)
class PredictorStarted(SpeculationEvent):
    """A predictor was started, to draw ``samples`` drafts."""

    predictor: str
    samples: int


@dataclass(frozen=True, slots=True)
class PredictorSkipped(SpeculationEvent):
    """A predictor was not started; ``reason`` says why."""

    predictor: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftArrived(SpeculationEvent):
    """A predictor drafted a call of ``tool``, ``after_s`` seconds into the turn."""

    predictor: str
    tool: str
    after_s: float


@dataclass(frozen=True, slots=True)
class DraftRefused(SpeculationEvent):
    """A draft was not run; ``reason`` says why. Repeated drafts of one call are not refused.

    ``invalid`` says that it is no call of a speculable tool: not a :class:`ToolCall`, of an unknown tool, or
    with arguments that the tool does not take. ``tool`` is empty where it has no name.
    """

    predictor: str
    tool: str
    reason: str
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class DraftJudged(SpeculationEvent):
    """The model has answered; ``correct`` says whether it made the drafted call of a speculable tool.

    Noted once for each different call that a predictor drafted in a turn, whether the draft was run, had
    been run for another predictor, or was only recorded; before the turn's :class:`TurnAnswered`.
    """

    predictor: str
    tool: str
    correct: bool
    draft_s: float


@dataclass(frozen=True, slots=True)
class PredictorCharged(SpeculationEvent):
    """A predictor was charged ``cost`` for what it sent or computed; negative amounts correct estimates."""

    predictor: str
    cost: DraftCost


@dataclass(frozen=True, slots=True)
class PredictorEnded(SpeculationEvent):
    """A predictor has ended before the model has answered; it ran ``ran_s`` seconds."""

    predictor: str
    ran_s: float


@dataclass(frozen=True, slots=True)
class PredictorStopped(SpeculationEvent):
    """A predictor may send no more in this turn; ``reason`` says why."""

    predictor: str
    reason: str


@dataclass(frozen=True, slots=True)
class PredictorFailed(SpeculationEvent):
    """A predictor raised; the model request is not affected."""

    predictor: str
    error: str


@dataclass(frozen=True, slots=True)
class SpeculationStarted(SpeculationEvent):
    """A speculative run of ``tool`` began, for a draft of ``predictor``; a run costs ``cost``.

    ``run`` is its number in this process, which the event of its end repeats.
    """

    tool: str
    predictor: str = ""
    cost: float = 0.0
    run: int = 0


@dataclass(frozen=True, slots=True)
class TurnAnswered(SpeculationEvent):
    """The main model answered after ``generation_s`` seconds, calling ``tools`` in this order.

    ``overhead_s`` is the CPU time of the SDK and of predictors on its event loop until then; None if unknown.
    """

    generation_s: float
    tools: tuple[str, ...]
    overhead_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallClaimed(SpeculationEvent):
    """A call was answered by a speculation (a hit).

    The tool ran ``tool_s`` seconds, of which the agent waited ``waited_s``; the draft had come
    ``draft_s`` seconds into the turn, from ``predictor``. The run costs ``cost``, as without speculation.
    """

    tool: str
    tool_s: float
    waited_s: float
    draft_s: float
    predictor: str = ""
    cost: float = 0.0
    run: int = 0

    @property
    def saved_s(self) -> float:
        """The seconds of the tool's run that the agent did not wait for."""
        return max(0.0, self.tool_s - self.waited_s)


@dataclass(frozen=True, slots=True)
class CallMissed(SpeculationEvent):
    """A call of a speculable tool was run for real and took ``tool_s`` seconds.

    ``draft_s`` is when in its turn the call was drafted, if it was drafted and not run: in shadow mode, or
    refused by the controller or a bound.
    """

    tool: str
    tool_s: float
    reason: str
    draft_s: float | None = None


@dataclass(frozen=True, slots=True)
class SpeculationWasted(SpeculationEvent):
    """A speculation was not claimed; its tool had run ``ran_s`` seconds and costs ``cost`` a run.

    ``disclosed`` says that it had passed values to a tool that ``discloses`` them, and had not received them
    before.
    """

    tool: str
    ran_s: float
    reason: str
    predictor: str = ""
    cost: float = 0.0
    run: int = 0
    disclosed: bool = False


@dataclass(frozen=True, slots=True)
class DraftUnclaimed(SpeculationEvent):
    """The model made a drafted call, and the call did not claim the speculation; ``reason`` says why.

    The speculation is wasted, and the tool runs again if the agent makes the call. ``called`` says that the
    call has reached the tool and is a :class:`CallMissed`, too. ``made`` is False for a call that the agent,
    as far as its history shows, did not make: a person has rejected it, or the run ended before it.
    """

    tool: str
    predictor: str
    reason: str
    called: bool = False
    made: bool = True


@dataclass(frozen=True, slots=True)
class SpeculationStopped(SpeculationEvent):
    """No call of ``tool`` is run speculatively any more; ``reason`` says why."""

    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class DiscardFailed(SpeculationEvent):
    """Discarding an unclaimed preparation of ``tool`` raised ``error``."""

    tool: str
    error: str


@dataclass(frozen=True, slots=True)
class WorkAbandoned(SpeculationEvent):
    """A tool or predictor, ``name``, has not ended ``waited_s`` seconds after its cancellation.

    Nothing waits for it any longer, and nothing of it can be claimed.
    """

    name: str
    waited_s: float


@dataclass(frozen=True, slots=True)
class SubmissionRefused(SpeculationEvent):
    """The engine did not take a submitted result or predicted call of ``tool``; the turn is not affected.

    ``reason`` is the error's type with its HTTP status, if it has one: the engine answered with an error,
    could not be reached, or the result cannot be sent.
    """

    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class AheadStarted(SpeculationEvent):
    """A model request was sent ahead, as the request of ``turn``."""


@dataclass(frozen=True, slots=True)
class AheadKept(SpeculationEvent):
    """The request of ``turn`` came as expected, ``saved_s`` seconds after it had been sent ahead."""

    saved_s: float


@dataclass(frozen=True, slots=True)
class AheadWasted(SpeculationEvent):
    """The request of ``turn`` did not come; the model had worked on it for ``ran_s`` seconds."""

    ran_s: float
    reason: str


@runtime_checkable
class SpeculationObserver(Protocol):
    """Receives every event, in the thread in which it happens; must not block.

    Events name tools and predictors, never arguments or results; ``at_s`` is when they happened, in seconds
    of agentrt's monotonic clock. An exception is logged and dropped.
    """

    def on_event(self, event: SpeculationEvent) -> None:
        """Handle ``event``."""


def error_kind(error: BaseException) -> str:
    """Return an error's type, followed by its HTTP status if it has one.

    The error's text is left out: it may hold API keys and arguments.
    """
    status = getattr(error, "status_code", None)
    return f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
