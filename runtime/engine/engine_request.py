"""A request in the engine, the text of its answer, its output, and how it is built."""

from __future__ import annotations

import itertools
from collections import abc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, TypedDict, Unpack

from agentrt.errors import InvalidRequestError

from ..drafting.drafter import DraftCompleter, Drafter, DraftSources
from ..kv.block_hashes import BlockHashes
from ..model.detokenizer import Detokenizer
from ..request.request import Request
from ..scheduler.sequence import Sequence
from ..toolcache.tool_turn import ToolTurn
from .logprobs import TokenLogprobs
from .sampler import TokenSampler


class AnswerText:
    """Detokenizes one answer and finds stop texts. Not thread-safe; one per sequence."""

    def __init__(self, detokenizer: Detokenizer, stop: abc.Sequence[str]) -> None:
        """``stop`` texts end the answer before the first of them."""
        self._detokenizer = detokenizer
        self._stop = tuple(stop)
        self._longest = max(map(len, self._stop), default=0)
        self._held = ""
        self._pieces: list[str] = []
        self.stopped_by: str | None = None
        """The stop text that has occurred; later tokens are ignored."""

    @property
    def text(self) -> str:
        """All text released so far."""
        return "".join(self._pieces)

    def push(self, token: int) -> str:
        """Take the next token; return the text that no later token can turn into a stop text."""
        return self._release(self._detokenizer.push(token), at_end=False)

    def close(self) -> str:
        """End the answer; return the text that was held back."""
        return self._release(self._detokenizer.close(), at_end=True)

    def _release(self, text: str, *, at_end: bool) -> str:
        if self.stopped_by is not None:
            return ""
        if self._stop:
            text = self._held + text
            found = [(position, stop) for stop in self._stop if (position := text.find(stop)) >= 0]
            if found:
                position, self.stopped_by = min(found)
                text, self._held = text[:position], ""
            else:
                held = 0 if at_end else self._possible_stop(text)
                text, self._held = text[: len(text) - held], text[len(text) - held :]
        if text:
            self._pieces.append(text)
        return text

    def _possible_stop(self, text: str) -> int:
        """Return the length of the longest end of ``text`` that is the beginning of a stop text."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stop):
                return length
        return 0


OutputListener: TypeAlias = Callable[["str | ToolTurn"], None]
"""Receives each piece of text and each tool turn that the engine answered, in order."""

StopReason: TypeAlias = Literal["stop", "length", "cancelled"]


class ToolCache(Protocol):
    """The tool outputs cached for one request, which can answer a tool turn in the engine (SpecTools, O3).

    Called on the engine thread only, and must be quick.
    """

    def answer_turn(self, end_token: int, text: str, total_tokens: int) -> ToolTurn | None:
        """Return the answered turn, or None if it calls no tool or the caller has to run one of its calls.

        ``text`` is what the model wrote in this turn, ``end_token`` the token that ended it, and
        ``total_tokens`` the length of the sequence so far.
        """
        ...


class SubmitOptions(TypedDict, total=False):
    """What a request is submitted with, besides what it asks for."""

    listener: OutputListener | None
    """Called on the engine thread. It must not block; if it raises, the request ends with its error."""
    drafters: abc.Sequence[Drafter]
    """They draft tokens, the first preferred."""
    completer: DraftCompleter | None
    """Completes their drafts."""
    tool_cache: ToolCache | None
    """Answers tool turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """The result of one request. Times are seconds since its arrival."""

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    """Every sampled token, including the one that ended the answer."""
    stop_reason: StopReason
    prompt_tokens: int
    """Number of tokens that were not sampled: the prompt and the tool outputs appended to it."""
    cached_tokens: int
    """Number of prompt tokens whose keys and values were already in memory."""
    queued_s: float
    time_to_first_token_s: float
    total_s: float
    preemptions: int = 0
    """How often it was paused between two kernels for more urgent ones."""
    evictions: int = 0
    """How often its KV blocks were taken for another request."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One entry per sampled token, if the request asks for them."""
    stopped_by: str | None = None
    """The stop text that ended the answer, if one did."""


class EngineRequest:
    """A request that was submitted to the engine.

    Other threads may use :attr:`output`, :attr:`request_id` and :attr:`logprobs`; the engine thread owns
    everything else.
    """

    def __init__(
        self,
        request: Request,
        sequence: Sequence,
        sampler: TokenSampler,
        answer: AnswerText,
        *,
        listener: OutputListener | None = None,
        drafter: DraftSources | None = None,
        tool_cache: ToolCache | None = None,
    ) -> None:
        """``sequence``, ``sampler`` and ``answer`` are new and belong to this request."""
        self.request_id = request.request_id
        self.output: Future[RequestOutput] = Future()
        # Running from the start, so that Future.cancel has no effect: only the engine ends a request.
        self.output.set_running_or_notify_cancel()
        self.sequence = sequence
        self.sampler = sampler
        self.answer = answer
        self.end_tokens = request.end_tokens
        self.max_total_tokens = request.max_total_tokens
        self.listener = listener
        self.drafter = drafter
        self.tool_cache = tool_cache
        self.started: float | None = None
        """Start time of its first kernel."""
        self.first_token: float | None = None
        """Time of its first token."""
        self._request = request
        self._turn_begin = 0
        self._calls = request.call_parser()

    @property
    def logprobs(self) -> abc.Sequence[TokenLogprobs]:
        """The entries so far; the engine thread appends to them."""
        return self.sampler.logprobs

    @property
    def turn_text(self) -> str:
        """The text since the last answered tool turn."""
        return self.answer.text[self._turn_begin :]

    def read_calls(self, piece: str | ToolTurn) -> None:
        """Take the next text of the answer, or the tool turn that was answered after it."""
        if isinstance(piece, ToolTurn):
            self._calls = self._request.call_parser()
        elif self._calls is not None:
            self._calls.feed(piece)

    @property
    def repeats_call(self) -> bool:
        """Whether the text of this turn has gone on to a call that it already made: the answer ends."""
        return self._calls is not None and self._calls.ended

    def extend_prompt(self, tokens: tuple[int, ...], usable_tokens: int) -> None:
        """Begin a turn after ``tokens`` that were appended without being sampled.

        They do not count as tokens of the answer; ``usable_tokens`` is what the KV arena holds.
        """
        self._turn_begin = len(self.answer.text)
        self.max_total_tokens = min(
            self.max_total_tokens + len(tokens), self._request.context_length, usable_tokens
        )
        self.sampler.extend_prompt(tokens)

    def finish(self, reason: StopReason, now: float) -> None:
        """Set the output, or the error of a grammar that could not be followed to its end."""
        error = self._request.grammar_error()
        if error is not None:
            self.output.set_exception(error)
            return
        sequence = self.sequence
        token_ids = tuple(sequence.sampled_tokens)
        self.output.set_result(
            RequestOutput(
                request_id=self.request_id,
                text=self.answer.text,
                token_ids=token_ids,
                stop_reason=reason,
                prompt_tokens=len(sequence.tokens) - len(token_ids),
                cached_tokens=sequence.cached_tokens or 0,
                queued_s=(self.started or now) - sequence.arrived,
                time_to_first_token_s=(self.first_token or now) - sequence.arrived,
                total_s=now - sequence.arrived,
                preemptions=sequence.preemptions,
                evictions=sequence.evictions,
                logprobs=tuple(self.sampler.logprobs),
                stopped_by=self.answer.stopped_by,
            )
        )


@dataclass(frozen=True)
class EngineRequestBuilder:
    """Builds the requests of one engine, on the threads that submit them. Thread-safe."""

    vocabulary_size: int
    block_tokens: int
    """Length of a KV block."""
    new_detokenizer: Callable[[], Detokenizer]
    """Called once per request."""
    _sequence_ids: Iterator[int] = field(default_factory=itertools.count)

    def build(self, request: Request, **options: Unpack[SubmitOptions]) -> EngineRequest:
        """Return a new engine request; see :meth:`Engine.submit`.

        Raises:
            InvalidRequestError: the prompt is empty.
        """
        params, vocabulary_size = request.sampling_params, self.vocabulary_size
        drafters, completer = options.get("drafters", ()), options.get("completer")
        sequence = self._sequence_of(request)
        sequence.calibrates = any(drafter.reads_prompt for drafter in drafters)
        return EngineRequest(
            request,
            sequence,
            TokenSampler(params, vocabulary_size, request.prompt_token_ids, request.grammar_matcher),
            AnswerText(self.new_detokenizer(), params.stop),
            listener=options.get("listener"),
            drafter=DraftSources(drafters, vocabulary_size, completer) if drafters or completer else None,
            tool_cache=options.get("tool_cache"),
        )

    def _sequence_of(self, request: Request) -> Sequence:
        """Return a new sequence of the prompt, with the hashes of its blocks."""
        tokens = list(request.prompt_token_ids)
        if not tokens:
            raise InvalidRequestError("prompt", "has no tokens. Give at least one.")
        hashes = None
        if request.prefix_salt is not None:
            hashes = BlockHashes(
                request.prefix_salt, self.block_tokens, request.public_salt, request.public_tokens
            )
            hashes.compute(tokens, len(tokens) // self.block_tokens)  # here, to spare the engine thread
        return Sequence(
            next(self._sequence_ids),
            request.priority,
            tokens,
            hashes,
            request.arrived,
            None if request.deadline_s is None else request.arrived + request.deadline_s,
            request.request_id,
            request.app,
            request.context_id,
            request.tool_seconds,
        )
