"""The events of speculation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from ..concurrency.clock import monotonic
from ..drafts import DraftCost


@dataclass(frozen=True, slots=True)
class _Event:
    """What all events have: ``at_s``, when it happened, in seconds of agentrt's monotonic clock."""

    at_s: float = field(default_factory=monotonic, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class TurnStarted(_Event):
    """A model request began; ``turn`` numbers the requests of one report from 1."""

    turn: int


@dataclass(frozen=True, slots=True)
class PredictorStarted(_Event):
    """A predictor was started, to draw ``samples`` drafts."""

    turn: int
    predictor: str
    samples: int


@dataclass(frozen=True, slots=True)
class PredictorSkipped(_Event):
    """A predictor was not started; ``reason`` says why."""

    turn: int
    predictor: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftArrived(_Event):
    """A predictor drafted a call of ``tool``, ``after_s`` seconds into the turn."""

    turn: int
    predictor: str
    tool: str
    after_s: float


@dataclass(frozen=True, slots=True)
class DraftRefused(_Event):
    """A draft was not run; ``reason`` says why. Repeated drafts of one call are not refused.

    ``invalid`` says that it is no call of a speculable tool: not a :class:`ToolCall`, of an unknown tool, or
    with arguments that the tool does not take. ``tool`` is empty where it has no name.
    """

    turn: int
    predictor: str
    tool: str
    reason: str
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class DraftJudged(_Event):
    """The model has answered; ``correct`` says whether it made the drafted call of a speculable tool.

    Noted once for each different call that a predictor drafted in a turn, whether the draft was run, had
    been run for another predictor, or was only recorded; before the turn's :class:`TurnAnswered`.
    """

    turn: int
    predictor: str
    tool: str
    correct: bool
    draft_s: float


@dataclass(frozen=True, slots=True)
class PredictorCharged(_Event):
    """A predictor was charged ``cost`` for what it sent or computed; negative amounts correct estimates."""

    turn: int
    predictor: str
    cost: DraftCost


@dataclass(frozen=True, slots=True)
class PredictorEnded(_Event):
    """A predictor has ended before the model has answered; it ran ``ran_s`` seconds."""

    turn: int
    predictor: str
    ran_s: float


@dataclass(frozen=True, slots=True)
class PredictorStopped(_Event):
    """A predictor may send no more in this turn; ``reason`` says why."""

    turn: int
    predictor: str
    reason: str


@dataclass(frozen=True, slots=True)
class PredictorFailed(_Event):
    """A predictor raised; the model request is not affected."""

    turn: int
    predictor: str
    error: str


@dataclass(frozen=True, slots=True)
class SpeculationStarted(_Event):
    """A speculative run of ``tool`` began, for a draft of ``predictor``; a run costs ``cost``.

    ``run`` is its number in this process, which the event of its end repeats.
    """

    turn: int
    tool: str
    predictor: str = ""
    cost: float = 0.0
    run: int = 0


@dataclass(frozen=True, slots=True)
class TurnAnswered(_Event):
    """The main model answered after ``generation_s`` seconds, calling ``tools`` in this order.

    ``overhead_s`` is the CPU time of the SDK and of predictors on its event loop until then; None if unknown.
    """

    turn: int
    generation_s: float
    tools: tuple[str, ...]
    overhead_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallClaimed(_Event):
    """A call was answered by a speculation (a hit).

    The tool ran ``tool_s`` seconds, of which the agent waited ``waited_s``; the draft had come
    ``draft_s`` seconds into the turn, from ``predictor``. The run costs ``cost``, as without speculation.
    """

    turn: int
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
class CallMissed(_Event):
    """A call of a speculable tool was run for real and took ``tool_s`` seconds.

    ``draft_s`` is when in its turn the call was drafted, if it was drafted and not run: in shadow mode, or
    refused by the controller or a bound.
    """

    turn: int
    tool: str
    tool_s: float
    reason: str
    draft_s: float | None = None


@dataclass(frozen=True, slots=True)
class SpeculationWasted(_Event):
    """A speculation was not claimed; its tool had run ``ran_s`` seconds and costs ``cost`` a run.

    ``disclosed`` says that it had passed values to a tool that ``discloses`` them, and had not received them
    before.
    """

    turn: int
    tool: str
    ran_s: float
    reason: str
    predictor: str = ""
    cost: float = 0.0
    run: int = 0
    disclosed: bool = False


@dataclass(frozen=True, slots=True)
class DraftUnclaimed(_Event):
    """The model made a drafted call, and the call did not claim the speculation; ``reason`` says why.

    The speculation is wasted, and the tool runs again if the agent makes the call. ``called`` says that the
    call has reached the tool and is a :class:`CallMissed`, too. ``made`` is False for a call that the agent,
    as far as its history shows, did not make: a person has rejected it, or the run ended before it.
    """

    turn: int
    tool: str
    predictor: str
    reason: str
    called: bool = False
    made: bool = True


@dataclass(frozen=True, slots=True)
class SpeculationStopped(_Event):
    """No call of ``tool`` is run speculatively any more; ``reason`` says why."""

    turn: int
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class DiscardFailed(_Event):
    """Discarding an unclaimed preparation of ``tool`` raised ``error``."""

    turn: int
    tool: str
    error: str


@dataclass(frozen=True, slots=True)
class WorkAbandoned(_Event):
    """A tool or predictor, ``name``, has not ended ``waited_s`` seconds after its cancellation.

    Nothing waits for it any longer, and nothing of it can be claimed.
    """

    turn: int
    name: str
    waited_s: float


@dataclass(frozen=True, slots=True)
class SubmissionRefused(_Event):
    """The engine's tool cache did not take the submitted result of ``tool``; the turn is not affected.

    ``reason`` is the error's type with its HTTP status, if it has one: the engine answered with an error,
    could not be reached, or the result cannot be sent.
    """

    turn: int
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class AheadStarted(_Event):
    """A model request was sent ahead, as the request of ``turn``."""

    turn: int


@dataclass(frozen=True, slots=True)
class AheadKept(_Event):
    """The request of ``turn`` came as expected, ``saved_s`` seconds after it had been sent ahead."""

    turn: int
    saved_s: float


@dataclass(frozen=True, slots=True)
class AheadWasted(_Event):
    """The request of ``turn`` did not come; the model had worked on it for ``ran_s`` seconds."""

    turn: int
    ran_s: float
    reason: str


SpeculationEvent: TypeAlias = (
    TurnStarted
    | PredictorStarted
    | PredictorSkipped
    | DraftArrived
    | DraftRefused
    | DraftJudged
    | PredictorCharged
    | PredictorEnded
    | PredictorStopped
    | PredictorFailed
    | SpeculationStarted
    | TurnAnswered
    | CallClaimed
    | CallMissed
    | SpeculationWasted
    | DraftUnclaimed
    | SpeculationStopped
    | DiscardFailed
    | WorkAbandoned
    | SubmissionRefused
    | AheadStarted
    | AheadKept
    | AheadWasted
)


@runtime_checkable
class SpeculationObserver(Protocol):
    """Receives every event, in the thread in which it happens; must not block.

    Events name tools and predictors, never arguments or results; ``at_s`` is when they happened, in seconds
    of agentrt's monotonic clock. An exception is logged and dropped.
    """

    def on_event(self, event: SpeculationEvent) -> None:
        """Handle ``event``."""
        ...
