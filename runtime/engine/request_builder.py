"""Builds engine requests of checked requests: sequence, block hashes, sampler, detokenizer, drafts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Unpack

from agentrt.errors import InvalidRequestError

from ..drafting.sources import DraftSources
from ..kv.block_hashes import BlockHashes
from ..model.detokenizer import Detokenizer
from ..request.request import Request
from ..scheduler.sequence import Sequence
from .engine_request import AnswerText, EngineRequest, SubmitOptions
from .sampler import TokenSampler


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
        return EngineRequest(
            request,
            self._sequence_of(request),
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
        )
