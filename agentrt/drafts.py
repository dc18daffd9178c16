"""The interface between turns and predictors of tool calls, and what predictors share."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

from .argument_checks import check_setting
from .calls import ParserEvent, ToolCall
from .calls.arguments import copied_json
from .concurrency.handover import Handover
from .concurrency.merge import merge
from .concurrency.threads import run_in_thread
from .errors import ConfigurationError

__all__ = [
    "AnswerStream",
    "DraftCharge",
    "DraftCost",
    "DraftRequest",
    "Learner",
    "Speculator",
    "estimated_tokens",
    "merge",
    "reads_calls",
    "run_in_thread",
]

logger = logging.getLogger("agentrt")
_BYTES_PER_TOKEN = 4  # of English and JSON in the vocabularies of current models; an answer corrects it


class AnswerStream:
    """The main model's answer in one turn, as far as it is written. Thread-safe.

    The turn puts events in from the thread in which the model answers. Each reader gets all of them, in
    order, also those from before it began to read.
    """

    def __init__(self) -> None:
        """Create the stream of an answer that has not begun."""
        self._events = Handover[ParserEvent]()

    def put(self, event: ParserEvent) -> None:
        """Append the next event; without effect once the answer has ended."""
        self._events.put(event)

    def end(self) -> None:
        """End the stream: the answer is complete, or will never be."""
        self._events.close()

    async def events(self) -> AsyncIterator[ParserEvent]:
        """Yield each event, waiting for the next one until the answer ends."""
        async with aclosing(self._events.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event


@dataclass(frozen=True, slots=True)
class DraftCost:
    """A cost of predicting: tokens read and written, and money, in the user's currency.

    Negative amounts take back what an estimate charged too much.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0

    def __add__(self, other: DraftCost) -> DraftCost:
        """Return both costs together."""
        return DraftCost(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.money + other.money,
        )

    def __sub__(self, other: DraftCost) -> DraftCost:
        """Return what this cost is more than ``other``."""
        return self + DraftCost(-other.input_tokens, -other.output_tokens, -other.money)


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """A model request in the form that predictors take, in the shape of OpenAI's chat completions.

    ``messages`` is the history, ``tools`` the function tools of the request, and ``samples`` the number of
    drafts to sample (SpecTools' λ). Messages and tools are copies that the predictors of the turn share:
    changing them does not change the model request. ``answer`` is the main model's answer as it is written,
    where the caller streams it. ``speculable`` names the tools that can be speculated, None if they are
    unknown: drafts of other tools are refused. ``ahead`` says that the last message is a call whose result is
    not known yet. Before a predictor sends or computes something that costs, it asks ``affords`` whether the
    budget allows that, and charges it by ``spend``, so that it counts also if the prediction is cut off; both
    from any thread. See :class:`DraftCharge`.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    samples: int = 1
    speculable: Collection[str] | None = None
    ahead: bool = False
    answer: AnswerStream = field(default_factory=AnswerStream, compare=False, repr=False)
    spend: Callable[[DraftCost], None] = field(default=lambda cost: None, compare=False, repr=False)
    affords: Callable[[DraftCost], bool] = field(default=lambda cost: True, compare=False, repr=False)


def copied_request(request: DraftRequest, samples: int) -> DraftRequest:
    """Return a request for ``samples`` samples, with copies of its messages and tools, down to their JSON."""
    messages = [copied_json(message) for message in request.messages]
    tools = [copied_json(tool) for tool in request.tools]
    return replace(request, messages=messages, tools=tools, samples=samples)


def estimated_tokens(request: DraftRequest) -> int:
    """Return about how many tokens a model reads for ``request``: one for each four bytes of its JSON."""
    text = json.dumps([request.messages, request.tools], ensure_ascii=False, default=str)
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


class DraftCharge:
    """What one request of a predictor has been charged.

    A request that is cut off has cost what it had read, and its usage is never known: so it is charged when
    it is sent, and the charge is replaced by the usage when there is one.
    """

    def __init__(self, request: DraftRequest, price: Callable[[int, int], DraftCost] = DraftCost) -> None:
        """``price`` returns the cost of tokens read and written; by default they cost no money."""
        self._request = request
        self._price = price
        self._charged = DraftCost()

    def send(self, input_tokens: int) -> bool:
        """Charge the reading of ``input_tokens``; return False, without a charge, if no budget allows it."""
        if not self._request.affords(self._price(input_tokens, 0)):
            return False
        self.correct(input_tokens, 0)
        return True

    def correct(self, input_tokens: int, output_tokens: int) -> None:
        """Replace what has been charged by the cost of these tokens."""
        cost = self._price(input_tokens, output_tokens)
        if cost != self._charged:
            self._request.spend(cost - self._charged)
            self._charged = cost

    def cancel(self) -> None:
        """Take the charge back: the request did not reach the model."""
        self.correct(0, 0)


@runtime_checkable
class Speculator(Protocol):
    """Predicts the next tool call while the main model is still generating.

    One predictor serves any number of turns at one time. Its attribute ``name``, if it has one, is its name
    in reports. A predictor whose attribute ``looks_ahead`` is true can also predict the call that follows one
    whose result is not in the messages yet. With turn-ahead (:mod:`agentrt.lookahead`) it is run on such a
    request first, and again when the result is known. One whose attribute ``shares_cores`` is false cannot
    slow the main model down, such as one that asks another machine; of all others that is measured. They are
    taken to slow it only until ``drafts`` ends: one that goes on computing does not end before that is done.
    One whose attribute ``reads_calls`` is true does not predict: it reads calls off the answer that the agent
    makes without naming them, as in code. They are bound with the other calls of the answer. One whose
    attribute ``reads_answer`` is true predicts nothing either: its drafts are calls of the answer, as far as
    that is written. What a turn asks of predictions does not bind calls that the model has made.
    """

    def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield each draft as soon as it is made; yield none if no tool call is expected.

        It runs on an event loop during the model request and must not block the loop. It is cancelled as
        soon as the main model has answered. An error is reported and does not affect the model request.
        """


@runtime_checkable
class Learner(Protocol):
    """A predictor that learns from the calls the main model makes."""

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        """Learn that the main model answered ``request`` with ``calls``, which may be empty.

        Called once for each answered turn, in the thread in which the model answered, before the calls are
        made: their results are in the messages of the next request. Must not block.
        """


def predictors_of(given: Any, *, others: tuple[type, ...] = ()) -> tuple[Any, ...]:
    """Return one predictor, or several in a collection or iterator, as a tuple.

    ``others`` are the types that the caller takes beside :class:`Speculator`.

    Raises:
        ConfigurationError: an object is no predictor; a class is none, it has to be instantiated, nor is one
            whose ``drafts`` is no asynchronous generator.
    """
    kinds = (Speculator, *others)
    # Not Iterable: a chat model is, as every model of pydantic, over its fields.
    several = isinstance(given, (Collection, Iterator)) and not isinstance(given, (str, *kinds))
    predictors = tuple(given) if several else (given,)
    for predictor in predictors:
        # A class has the methods of its instances, too.
        accepted = () if isinstance(predictor, type) else kinds
        check_setting(
            "predictors", predictor, accepted, "a predictor, such as StreamSpeculator(), or a list of them"
        )
        method = getattr(predictor, "drafts", None)
        if inspect.iscoroutinefunction(method):
            raise _no_drafts(predictor, "is a coroutine, which yields nothing")
        if inspect.isgeneratorfunction(method):
            raise _no_drafts(predictor, "is a generator that is not async")
    return predictors


def drafts_of(predictor: Speculator, request: DraftRequest) -> AsyncIterator[ToolCall]:
    """Return the drafts of a predictor, which begin with the first iteration.

    Raises:
        ConfigurationError: its method returns something else than an asynchronous iterator. The error is
            logged here: reports have no texts of a predictor's errors.
    """
    drafts = predictor.drafts(request)
    if not isinstance(drafts, AsyncIterable):
        if inspect.iscoroutine(drafts):
            drafts.close()
        error = _no_drafts(predictor, f"returns an object of type {type(drafts).__name__}")
        logger.warning("%s", error)
        raise error
    return drafts


def _no_drafts(predictor: Any, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"predictors: drafts() of {name_of(predictor)} {problem}. Write 'async def drafts(self, request):' "
        "with 'yield ToolCall(…)' for each draft in it."
    )


def name_of(predictor: Speculator) -> str:
    """Return the predictor's name in reports: its ``name``, or else its class's."""
    return getattr(predictor, "name", type(predictor).__name__)


def learner_of(predictor: Speculator) -> Learner | None:
    """Return the predictor as one that learns, or None. Cheaper than ``isinstance`` with a protocol."""
    return cast("Learner", predictor) if hasattr(predictor, "learn") else None


def looks_ahead(predictor: Speculator) -> bool:
    """Whether a predictor can predict the call that follows one whose result is not known yet."""
    return bool(getattr(predictor, "looks_ahead", False))


def reads_calls(predictor: Speculator) -> bool:
    """Whether a predictor's drafts are calls that the answer makes in another form, such as code."""
    return bool(getattr(predictor, "reads_calls", False))


def reads_answer(predictor: Speculator) -> bool:
    """Whether a predictor's drafts are calls that the main model has made, rather than predictions."""
    return reads_calls(predictor) or bool(getattr(predictor, "reads_answer", False))


def shares_cores(predictor: Speculator) -> bool:
    """Whether running a predictor may slow a main model on this machine down."""
    return bool(getattr(predictor, "shares_cores", True))
